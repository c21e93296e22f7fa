"""Image experiments of Lippl and Stachenfeld 2025, read off its figures; literals only.

Means over ten seeds. "comp": new combinations of unseen images; "in": trained combinations of
unseen images. "mean additivity": over the splits, which is what the paper's numbers agree with.
Magnitudes "as shares" were read as heights relative to the highest, and divided by their sum.
"""

PAPER = "Lippl and Stachenfeld 2025"

# The layout of these tables is told in `published.read`.
# fmt: off
TABLES = (
    {"kind": "read", "metrics": {"addition_mnist": "{line}, d={column}: slope"}, "error": 0.003,
     "where": "figure of values by distance", "columns": (0, 5, 10, 15, 20), "lines": {
         "extrapolation": (0.554, 0.605, 0.692, 0.747, 0.776),
         "interpolation": (0.653, 0.692, 0.763, 0.806, 0.834),
         "both": (0.656, 0.699, 0.774, 0.819, 0.833),
         "asymmetric": (0.516, 0.553, 0.613, 0.654, 0.674),
     }},
    {"kind": "read", "metrics": {"addition_mnist": "{line}, d={column}: value at 0"}, "error": 0.05,
     "where": "figure of values by distance", "columns": (0, 5, 10, 15, 20), "lines": {
         "asymmetric": (-1.58, -1.52, -1.26, -1.06, -0.95),
     }},
    {"kind": "read", "metrics": {"addition_mnist": "{line}, d={column}: comp mse"}, "error": 0.05,
     "where": "figure of MSE by distance", "columns": (0, 5, 10, 15, 20), "lines": {
         "extrapolation": (5.485, 4.906, 3.866, 3.328, 3.102),
         "interpolation": (4.92, 4.314, 3.147, 2.686, 2.46),
         "both": (4.617, 4.137, 3.301, 2.867, 2.722),
         "asymmetric": (17.884, 15.994, 11.648, 9.035, 8.035),
     }},
    {"kind": "read", "metrics": {"addition_mnist": "{line}, d={column}: in mse"}, "error": 0.05,
     "where": "figure of MSE by distance", "columns": (0, 5, 10, 15, 20), "lines": {
         "extrapolation": (1.935, 1.872, 1.673, 1.696, 1.727),
         "interpolation": (2.998, 2.903, 2.776, 2.776, 2.713),
         "both": (2.478, 2.424, 2.225, 2.189, 2.107),
         "asymmetric": (1.913, 1.827, 1.773, 1.886, 1.89),
     }},
    {"kind": "read", "metrics": {"addition_mnist": "{line}, d={column}: mean additivity"},
     "error": 0.003,
     "where": "figure of additivity by distance", "columns": (0, 5, 10, 15, 20), "lines": {
         "extrapolation": (0.9849, 0.9855, 0.9886, 0.9889, 0.9894),
         "interpolation": (0.9877, 0.9891, 0.9904, 0.9904, 0.9904),
         "both": (0.9892, 0.9897, 0.9908, 0.9907, 0.9907),
         "asymmetric": (0.9823, 0.9836, 0.9845, 0.9847, 0.9828),
     }},
    {"kind": "read", "metrics": {"cd_mnist": "{line}, d={column}: mean additivity"}, "error": 0.003,
     "where": "figure of additivity by distance", "columns": (0, 5, 10, 15, 20), "lines": {
         "cd_1": (0.993, 0.9945, 0.9948, 0.9955, 0.996),
         "cd_2": (0.9918, 0.9929, 0.9944, 0.995, 0.9951),
         "cd_3": (0.9524, 0.9733, 0.983, 0.9881, 0.9918),
     }},
    {"kind": "read", "metrics": {"cd_mnist": "{line}, d={column}: comp accuracy"}, "error": 0.003,
     "where": "figure of accuracy by distance", "columns": (0, 5, 10, 15, 20), "lines": {
         "cd_1": (0.894, 0.91, 0.94, 0.953, 0.963),
         "cd_2": (0.839, 0.87, 0.913, 0.942, 0.944),
         "cd_3": (0.503, 0.424, 0.363, 0.288, 0.229),
     }},
    {"kind": "read", "metrics": {"cd_mnist": "{line}, d={column}: in accuracy"}, "error": 0.003,
     "where": "figure of accuracy by distance", "columns": (0, 5, 10, 15, 20), "lines": {
         "cd_1": (0.946, 0.957, 0.969, 0.972, 0.976),
         "cd_2": (0.951, 0.961, 0.971, 0.976, 0.977),
         "cd_3": (0.962, 0.968, 0.972, 0.975, 0.975),
     }},
    {"kind": "read", "metrics": {"cd_mnist": "{line}, d=20: magnitude {column}"}, "error": 0.003,
     "where": "figure 5d",
     "columns": ("right", "wrong", "sensory", "context", "memorization"), "lines": {
         "cd_1": (0.546, 0.248, 0.115, 0.008, 0.083),
         "cd_2": (0.542, 0.232, 0.128, 0.021, 0.078),
         "cd_3": (0.261, 0.12, 0.177, 0.381, 0.061),
     }},
    {"kind": "read", "metrics": {"cd_mnist": "{line}: magnitude {column}"}, "error": 0.003,
     "where": "figure of magnitudes by distance, as shares",
     "columns": ("right", "wrong", "sensory", "context", "memorization"), "lines": {
         "cd_1, d=0": (0.546, 0.236, 0.121, 0.007, 0.089),
         "cd_1, d=5": (0.549, 0.239, 0.121, 0.002, 0.089),
         "cd_1, d=10": (0.548, 0.245, 0.118, 0.003, 0.087),
         "cd_1, d=15": (0.547, 0.249, 0.115, 0.004, 0.084),
         "cd_2, d=0": (0.519, 0.201, 0.133, 0.058, 0.089),
         "cd_2, d=5": (0.529, 0.209, 0.134, 0.042, 0.087),
         "cd_2, d=10": (0.532, 0.222, 0.13, 0.034, 0.082),
         "cd_2, d=15": (0.538, 0.23, 0.127, 0.026, 0.079),
         "cd_3, d=0": (0.39, 0.05, 0.181, 0.301, 0.078),
         "cd_3, d=5": (0.346, 0.068, 0.182, 0.333, 0.071),
         "cd_3, d=10": (0.315, 0.089, 0.181, 0.348, 0.067),
         "cd_3, d=15": (0.288, 0.098, 0.179, 0.37, 0.065),
     }},
    {"kind": "read", "metrics": {"te_mnist": "te_5_5_hubs_4, d={column}: {line}"}, "error": 0.003,
     "where": "figure 4d", "columns": (0, 5, 10, 15, 20), "lines": {
         "comp accuracy": (0.529, 0.58, 0.76, 0.831, 0.891),
         "in accuracy": (0.704, 0.733, 0.817, 0.87, 0.885),
     }},
    {"kind": "read", "metrics": {"te_mnist": "all hubs, d={column}: {line}"}, "error": 0.003,
     "where": "figure 5e, one hub per class and four pooled", "columns": (0, 5, 10, 15, 20),
     "lines": {
         "comp accuracy": (0.513, 0.539, 0.674, 0.728, 0.785),
         "in accuracy": (0.757, 0.783, 0.843, 0.887, 0.896),
     }},
    {"kind": "read", "metrics": {"addition_cifar_resnet": "{column}, d=0: {line}"}, "error": 0.003,
     "where": "figure of CIFAR-10 values",
     "columns": ("extrapolation", "interpolation", "both", "asymmetric"), "lines": {
         "slope": (0.396, 0.468, 0.469, 0.396),
     }},
    {"kind": "read", "metrics": {"addition_cifar_resnet": "{column}, d=0: {line}"}, "error": 0.05,
     "where": "figure of CIFAR-10 MSE",
     "columns": ("extrapolation", "interpolation", "both", "asymmetric"), "lines": {
         "train mse": (1.67, 2.82, 2.45, 1.76),
         "in mse": (3.27, 5.4, 4.49, 3.24),
         "comp mse": (9.23, 14.94, 9.43, 24.66),
     }},
    {"kind": "read", "metrics": {"addition_cifar_resnet": "{column}, d=0: {line}"}, "error": 0.003,
     "where": "figure of CIFAR-10 additivity",
     "columns": ("extrapolation", "interpolation", "both", "asymmetric"), "lines": {
         "mean additivity": (0.9669, 0.9816, 0.9836, 0.9701),
     }},
    {"kind": "read", "metrics": {"cd_cifar_resnet": "{column}, d=0: {line}"}, "error": 0.003,
     "where": "figure of CIFAR-10 accuracy", "columns": ("cd_1", "cd_2", "cd_3"), "lines": {
         "train accuracy": (0.886, 0.864, 0.891),
         "in accuracy": (0.804, 0.791, 0.821),
         "comp accuracy": (0.75, 0.638, 0.468),
     }},
    {"kind": "read", "metrics": {"cd_cifar_resnet": "{column}, d=0: {line}"}, "error": 0.003,
     "where": "figure of CIFAR-10 additivity", "columns": ("cd_1", "cd_2", "cd_3"), "lines": {
         "mean additivity": (0.9849, 0.9746, 0.9845),
     }},
    {"kind": "read", "metrics": {"cd_cifar_resnet": "{line}, d=0: magnitude {column}"},
     "error": 0.003,
     "where": "figure of CIFAR-10 magnitudes, as shares",
     "columns": ("right", "wrong", "sensory", "context", "memorization"), "lines": {
         "cd_1": (0.552, 0.177, 0.15, 0.03, 0.091),
         "cd_2": (0.542, 0.127, 0.19, 0.01, 0.131),
         "cd_3": (0.341, 0.132, 0.221, 0.233, 0.073),
     }},
    {"kind": "read", "metrics": {"addition_cifar_vit": "{column}, d=0: {line}"}, "error": 0.003,
     "where": "figure of CIFAR-10 values",
     "columns": ("extrapolation", "interpolation", "both", "asymmetric"), "lines": {
         "slope": (0.259, 0.321, 0.334, 0.294),
     }},
    {"kind": "read", "metrics": {"addition_cifar_vit": "{column}, d=0: {line}"}, "error": 0.05,
     "where": "figure of CIFAR-10 MSE",
     "columns": ("extrapolation", "interpolation", "both", "asymmetric"), "lines": {
         "train mse": (2.38, 4.58, 3.21, 2.46),
         "in mse": (5.6, 11.43, 7.77, 5.17),
         "comp mse": (11.8, 19.03, 12.52, 29.38),
     }},
    {"kind": "read", "metrics": {"addition_cifar_vit": "{column}, d=0: {line}"}, "error": 0.003,
     "where": "figure of CIFAR-10 additivity",
     "columns": ("extrapolation", "interpolation", "both", "asymmetric"), "lines": {
         "mean additivity": (0.9507, 0.9644, 0.9609, 0.9399),
     }},
    {"kind": "read", "metrics": {"cd_cifar_vit": "{column}, d=0: {line}"}, "error": 0.003,
     "where": "figure of CIFAR-10 accuracy", "columns": ("cd_1", "cd_2", "cd_3"), "lines": {
         "train accuracy": (0.904, 0.916, 0.931),
         "in accuracy": (0.692, 0.72, 0.754),
         "comp accuracy": (0.583, 0.577, 0.461),
     }},
    {"kind": "read", "metrics": {"cd_cifar_vit": "{column}, d=0: {line}"}, "error": 0.003,
     "where": "figure of CIFAR-10 additivity", "columns": ("cd_1", "cd_2", "cd_3"), "lines": {
         "mean additivity": (0.8666, 0.9029, 0.9545),
     }},
    {"kind": "read", "metrics": {"cd_cifar_vit": "{line}, d=0: magnitude {column}"}, "error": 0.003,
     "where": "figure of CIFAR-10 magnitudes, as shares",
     "columns": ("right", "wrong", "sensory", "context", "memorization"), "lines": {
         "cd_1": (0.537, 0.162, 0.147, 0.037, 0.118),
         "cd_2": (0.478, 0.104, 0.161, 0.14, 0.116),
         "cd_3": (0.322, 0.069, 0.183, 0.311, 0.114),
     }},
)
