"""Numbers of Liang, Qian, Ziyin and Fiete 2025 and of their released experiments; literals only.

One run each, unless said otherwise. "Printed" numbers stand in the release's logs; errors of those
that were read off plots are of our reading, chosen so that two of them cover what the plot may
mean. Position errors of the release are not here: they compare rows with columns. With one run
each, errors are held to the order of magnitude: ours may be twice or half of theirs.
"""

PAPER = "Liang et al. 2025"

# The layout of these tables is told in `published.read`.
# fmt: off
TABLES = (
    # Over the last ten epochs ID runs from 4.5e-5 to 6.4e-5 and OOD from 1.3e-4 to 2.5e-4.
    {"kind": "printed", "metrics": {"B8": "lam_entropy 0.1 + vec_variance 0.01: {line} mse"},
     "error": 0.0, "where": "remedy A, epoch 1000", "spread": "epochs", "factor": 2.0,
     "columns": ("mse",), "lines": {
         "id": ((4.5e-5, 1e-5),),
         "ood": ((1.4e-4, 6e-5),),
     }},
    {"kind": "read", "metrics": {"B8": "no penalty: {line} mse"}, "error": 0.0,
     "where": "remedy A without penalty, epoch 1000", "factor": 2.0, "columns": ("mse",), "lines": {
         "id": ((1e-6, 5e-7),),
         "ood": ((0.027, 0.002),),
     }},
    {"kind": "read", "metrics": {"B11": "pixel_4/{line} mse"}, "error": 0.0,
     "where": "pixel-token MLP, depth 4", "factor": 2.0, "columns": ("mse",), "lines": {
         "ood": ((3.5e-5, 1e-5),),
     }},
    # One network; the printed spread is over its images, no error of these means.
    {"kind": "printed", "metrics": {"long": "{line} {column}, between pixels"}, "error": 0.0,
     "where": "long demonstration, 50 x 50 centres", "factor": 2.0,
     "columns": ("mse", "ssim error"), "lines": {
         "id": (5.9e-5, 0.0019),
         "ood": (0.003112, 0.1623),
     }},
    {"kind": "printed", "metrics": {"B3": "width_{column}/{line} mse"}, "error": 1e-4,
     "where": "width of the input bump", "factor": 2.0, "columns": (1, 3, 5, 7, 9, 11), "lines": {
         "ood": (0.0033, 0.0027, 0.0027, 0.0028, 0.0027, 0.0023),
     }},
    {"kind": "read", "metrics": {"B2": "{line}_{column}/ood mse"}, "error": 0.001,
     "where": "no depth helps", "factor": 2.0, "columns": (2, 3, 4, 5, 6, 7, 8, 9, 10), "lines": {
         "mlp": (None, 0.004, 0.004, 0.004, 0.004, 0.004, None, None, None),
         "cnn": (0.004, 0.004, 0.004, 0.004, 0.004, 0.004, 0.004, 0.004, 0.004),
     }},
    {"kind": "printed", "metrics": {"ranks": "{line}/id mse"}, "error": 5e-5,
     "where": "ten layers with batch normalisation", "factor": 2.0, "columns": ("mse",), "lines": {
         "bump": (0.0035,),
         "ramp": (0.0029,),
     }},
    {"kind": "printed", "metrics": {"needed": "hole {column}, {line}: exponent"}, "error": 0.0,
     "where": "data needed against image size", "columns": (1, 2), "lines": {
         "no stripes": (3.0, 3.0),
         "stripes": (1.0, 1.0),
     }},
)
