"""The vector simulation beside Wiedemer et al. 2023, read off its notebooks' plots; literals only.

One run each, trained on 4096 samples. Errors are those of our reading, chosen so that two of them
cover what the plot may mean (0.02 either way; 0.4 to 0.55 for mlp_orthogonal).
"""

PAPER = "Wiedemer et al. 2023"

# The layout of these tables is told in `published.read`.
# fmt: off
TABLES = (
    {"kind": "read", "metrics": {"{line}_{column}": "r2_all"}, "error": 0.01,
     "where": "notebook plot: {column}",
     "columns": ("random", "diagonal", "orthogonal"), "lines": {
         "mlp": (0.97, 0.14, (0.475, 0.0375)),
         "compositional": (0.97, 0.97, 0.93),
         "regularised": (0.87, -0.13, 0.68),
     }},
)
