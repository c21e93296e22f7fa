"""What figures of dense networks and of networks on images share."""

from cgjax import plots


def colours(n_tasks: int):
    """One for each task: the usual ones, or shades where there are more tasks than those."""
    return plots.COLOURS if n_tasks <= len(plots.COLOURS) else plots.shades(n_tasks)
