"""What the lenses say in words; no word is stronger than what was measured.

Each sentence gives its numbers first. What they amount to is named only near an end of the scale,
by the thresholds below, and in between nothing is.
"""

import numpy as np

NEARLY, HARDLY = 0.99, 0.01  # shares
COMPOSES, MEMORISES = 0.95, 0.05  # slopes, and R2 that go with them
STRUCTURED = 0.9  # of a kernel, from where on its saliences describe it
UNLIKE = 0.9  # additive share below which a product is told from a sum
PARTED = 0.9  # differences of effects, own minus others
MOST_ROWS = 4  # of a matrix, told one by one
ALIKE = 0.1  # slopes that differ by less are called alike


def paragraph(found) -> str:
    """All lenses of `lenses.Lenses`, and what was not looked at."""
    parts = [f"Support: {found.support.verdict}"] if found.support is not None else []
    parts += _of_kernel(found.kernel) if found.kernel is not None else []
    parts += [_of_layers(found.factorization)] if found.factorization is not None else []
    parts += [_of_dependence(found.dependence, found.names)] if found.dependence is not None else []
    parts += [_of_masks(found.masks, found.names)] if found.masks is not None else []
    if found.reasons:
        each = "; ".join(f"{name}: {why}" for name, why in _grouped(found.reasons).items())
        parts.append(f"Undefined: {each}.")
    return " ".join(parts)


def headline(found) -> str:
    """One sentence above the figure."""
    kernel = found.kernel
    if kernel is None or kernel.slope is None:
        return "Lenses on a model; its slope on unseen combinations is undefined"
    text = f"On unseen combinations the model keeps {kernel.slope:z.2f} of the reference"
    return text + f"; its tangent kernel foretells {kernel.slope_kernel:z.2f}"


def _grouped(reasons):
    """Fields with one reason share a line."""
    found = {}
    for name, why in reasons.items():
        found.setdefault(why, []).append(name)
    return {", ".join(names): why for why, names in found.items()}


def _of_kernel(kernel):
    n, trained = len(kernel.is_train), kernel.is_train.sum()
    parts = []
    text = f"Of {n} combinations {trained} were trained."
    if kernel.additivity is not None:
        text += (
            f" On the others, sums over trained conjunctions explain {kernel.additivity:.3f} of "
            f"the outputs ({kernel.additivity_random:.3f} of random ones)"
        )
        text += ": conjunction-wise additive." if kernel.additivity >= NEARLY else "."
    parts.append(text)
    if kernel.salience is not None:
        parts.append(_of_salience(kernel))
    if kernel.slope is not None:
        parts.append(_of_slope(kernel))
    return parts


def _of_salience(kernel):
    n = len(kernel.salience)
    each = ", ".join(f"{s:z.3f}" for s in kernel.salience)
    text = (
        f"The tangent kernel has saliences S(1..{n}) = {each}, and which factors two inputs share "
        f"explains {kernel.structured:.3f} of it"
    )
    if kernel.structured < STRUCTURED:
        return text + ": it depends on more than that."
    if n * kernel.salience[0] >= NEARLY:
        return text + ": it counts single factors."
    return text + (": a look-up table." if kernel.salience[-1] >= NEARLY else ".")


def _of_slope(kernel):
    text = (
        f"Against the reference on {kernel.is_judged.sum()} unseen combinations the model has "
        f"slope {kernel.slope:z.3f} and R2 {kernel.r2:z.3f} ({kernel.r2_train:z.3f} on trained "
        f"ones), a machine with its tangent kernel has slope {kernel.slope_kernel:z.3f}"
    )
    if kernel.slope_salience is not None:
        text += f", with its saliences alone {kernel.slope_salience:z.3f}"
    if kernel.r2_train < COMPOSES:
        return text + "; as trained outputs are not like the reference, this says little."
    y, f = (np.var(a[kernel.is_judged], axis=0).sum() for a in (kernel.reference, kernel.outputs))
    if min(kernel.slope, kernel.r2) >= COMPOSES:
        text += ": it composes"
    elif abs(kernel.slope) <= MEMORISES and f <= MEMORISES * y:
        text += ": it memorises, and what it learned does not reach them"
    away = kernel.slope - kernel.slope_kernel
    if abs(away) < ALIKE:
        return text + ", about as its kernel foretells."
    return text + f", {'more' if away > 0 else 'less'} than its kernel foretells."


def _of_layers(layers):
    each = "; ".join(f"{name} {_of_layer(one)}" for name, one in layers.items())
    return f"Layers (additive, product, right angles): {each}."


def _of_layer(layer):
    if np.isnan(layer.additive):
        return "does not vary on some grid"
    text = f"{layer.additive:.3f}, {layer.schmidt:.3f}, {layer.metric:.3f}"
    is_product = layer.schmidt >= NEARLY
    if layer.additive >= NEARLY:
        return text + (" (of one factor, or nearly constant)" if is_product else " (a sum)")
    # The kernel of activations that hardly vary is a product, whatever they do.
    return text + (" (a product)" if is_product and layer.additive < UNLIKE else "")


def _of_dependence(dependence, names):
    effects = dependence.effects
    worst = np.nanmax(dependence.interaction)
    text = f"A share of {worst:z.3f} of the outputs' variance"
    text += " (of the worst row)" if len(effects) > 1 else ""
    text += " is interaction, which no sum over factors explains"
    if worst <= HARDLY:
        text += ": factors add"
    shares = "; ".join(_of_row(row, names) for row in effects[:MOST_ROWS])
    text += f". When one factor alone changes, outputs vary by a share of: {shares}"
    text += f"; and {len(effects) - MOST_ROWS} more rows" if len(effects) > MOST_ROWS else ""
    on = np.nan_to_num(effects) > HARDLY
    if len(effects) > 1 and np.all(on.sum(axis=1) == 1) and np.all(on.any(axis=0)):
        text += ": each output depends on one factor, and each factor has its own"
    return text + "."


def _of_row(row, names):
    if np.isnan(row).all():
        return "(does not vary)"
    shares = ("unknown" if np.isnan(share) else f"{share:z.3f}" for share in row)
    return ", ".join(f"{name} {share}" for name, share in zip(names, shares))


def _of_masks(masks, names):
    kept = ", ".join(f"{share:.2f} for {names[c]}" for c, share in zip(masks.factors, masks.kept))
    away = ~np.eye(len(masks.kept), dtype=bool)
    text = (
        f"Subnetworks of a share of the weights ({kept}) have at least "
        f"{np.diag(masks.alone).min():.2f} of their own effect and overlap by "
        f"{masks.overlap[away].mean():.2f} (random ones {masks.overlap_random[away].mean():.2f}); "
        f"own minus other effects are "
        f"{masks.sub_diff:+.2f} in them and {masks.abl_diff:+.2f} without them (random removals "
        f"{masks.abl_diff_random.mean():+.2f})"
    )
    if min(masks.sub_diff, -masks.abl_diff) >= PARTED:
        text += ": a part for each factor"
    return text + f"; the search took {masks.n_passes} passes."
