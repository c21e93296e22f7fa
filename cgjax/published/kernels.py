"""Experiments of Lippl and Stachenfeld 2025; literals only.

Read off the vector figures to three digits, recomputed with the published settings, or printed, as
each table says; error 0 where a formula or a count gives them, whose tolerance is that of the last
digit.
"""

PAPER = "Lippl and Stachenfeld 2025"

ROWS = {
    "tasks": "Combinations of a task",
    "transitive": "Kernel machines on transitive tasks",
    "salience": "Salience of conjunctions in wide random networks",
    "leak": "Closed form of the memorization leak",
    "partial": "Closed form of the margins",
    "phase": "Kernels of the grid by which context tasks they solve",
    "magnitudes": "What a kernel machine uses on context dependence",
    "dispersed": "Kernel machines add without anchors",
    "addition_rich": "Dense networks from rich to lazy add",
    "te_rich": "Dense networks on transitive equivalence, rich and lazy",
    "addition_deep": "Dense networks by depth add",
    "cd_deep": "Dense networks by depth on context dependence",
    "te_deep": "Dense networks by depth on transitive equivalence",
    "addition_mnist": "ConvNets add two digits",
    "cd_mnist": "ConvNets respond to the digit that a third one names",
    "te_mnist": "ConvNets on transitive equivalence of digits",
    "addition_cifar_resnet": "ResNets add two images",
    "cd_cifar_resnet": "ResNets respond to the image that a third one names",
    "addition_cifar_vit": "Vision transformers add two images",
    "cd_cifar_vit": "Vision transformers respond to the image that a third one names",
}

# Columns of several tables.
TYPES = ("right", "wrong", "sensory", "context", "memorization")  # of conjunctions
SPLITS = ("extrapolation", "interpolation", "both", "asymmetric")
DISTANCES = (0, 5, 10, 15, 20)
DEPTHS = (1, 2, 3, 4)
CONTEXTS = ("cd_1", "cd_2", "cd_3")
MACHINES = ("svm", "regression")
SALIENCES = (
    "0.00", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30", "0.35", "0.40", "0.45", "0.50",
)  # fmt: skip
# Read off figures: means of networks on images and of dense networks, their numbers and their R2.
IMAGES = {"kind": "read", "runs": 10, "error": 0.001}
IMAGES_R2 = {"kind": "read", "runs": 10, "error": 0.0005, "scale": "r2"}
DENSE = {"kind": "read", "runs": 6, "error": 0.001}
DENSE_R2 = {"kind": "read", "runs": 6, "error": 0.0005, "scale": "r2"}

# `published.reading.read` describes the layout of these tables.
# fmt: off
TABLES = (
    {"kind": "formula", "metrics": {"tasks": "{line}: {column}"}, "error": 0,
     "where": "tasks", "tolerance": 0.5, "columns": ("trained", "tested"), "lines": {
         "addition_extrapolation": (17, 64),
         "addition_asymmetric": (17, 64),
         "addition_interpolation": (32, 49),
         "addition_both": (32, 49),
         "addition_dispersed_1": (18, 63),
         "cd_1": (70, 2),
         "cd_2": (64, 8),
         "cd_3": (54, 18),
         "to_7": (12, 30),
     }},
    # Of the answers to new pairs; the targets have one. Classes have unequal sizes: with equal ones
    # the mean margin of any additive function is 0, so a match would say nothing.
    {"kind": "formula", "metrics": {"transitive": "{line}, {column}: largest interaction"},
     "error": 0.0, "tolerance": 1e-6,
     "where": "theorem 4.2, two components", "columns": MACHINES, "lines": {
         "te_3_5": (0.0, 0.0),
     }},
    {"kind": "recomputed", "metrics": {"transitive": "{line}, {column}: least accuracy"},
     "error": 0.0, "where": "transitive ordering is additive", "columns": MACHINES, "lines": {
         "to_7": (1.0, 1.0),
     }},
    # Of the layer maps that the paper's figure is drawn from, to four digits.
    {"kind": "formula", "metrics": {"salience": "{line[0]}, depth {line[1]}: {column}"},
     "error": 0.0, "where": "Fig. 2, salience by depth", "tolerance": 1e-4,
     "columns": ("S(1;3)", "S(2;3)", "S(3;3)", "S(1;2)"), "lines": {
         ("step", 1): (0.2163, 0.0319, 0.2554, 0.3333),
         ("step", 2): (0.1243, 0.0360, 0.5190, 0.1968),
         ("step", 5): (0.0190, 0.0088, 0.9165, 0.0311),
         ("step", 10): (0.0007, 0.0004, 0.9967, 0.0012),
         ("step", 20): (0.0000, 0.0000, 1.0000, 0.0000),
         ("relu", 1): (0.2707, 0.0559, 0.0203, 0.4264),
         ("relu", 2): (0.2314, 0.0814, 0.0617, 0.3756),
         ("relu", 5): (0.1655, 0.1038, 0.1922, 0.2822),
         ("relu", 10): (0.1149, 0.0999, 0.3555, 0.2033),
         ("relu", 20): (0.0727, 0.0796, 0.5430, 0.1325),
         ("leaky_relu", 1): (0.2873, 0.0410, 0.0149, 0.4460),
         ("leaky_relu", 2): (0.2545, 0.0646, 0.0427, 0.4046),
         ("leaky_relu", 5): (0.1927, 0.0937, 0.1407, 0.3203),
         ("leaky_relu", 10): (0.1397, 0.0997, 0.2818, 0.2410),
         ("leaky_relu", 20): (0.0916, 0.0866, 0.4653, 0.1634),
         ("rectified_quadratic", 1): (0.2174, 0.1083, 0.0229, 0.3654),
         ("rectified_quadratic", 2): (0.1469, 0.1411, 0.1361, 0.2671),
         ("rectified_quadratic", 5): (0.0491, 0.1001, 0.5526, 0.1010),
         ("rectified_quadratic", 10): (0.0085, 0.0239, 0.9025, 0.0187),
         ("rectified_quadratic", 20): (0.0003, 0.0008, 0.9967, 0.0006),
         ("gaussian", 1): (0.0751, 0.1903, 0.2038, 0.1776),
         ("gaussian", 2): (0.0525, 0.1566, 0.3728, 0.1287),
         ("gaussian", 5): (0.0335, 0.1146, 0.5556, 0.0847),
         ("gaussian", 10): (0.0268, 0.0962, 0.6312, 0.0684),
         ("gaussian", 20): (0.0246, 0.0899, 0.6566, 0.0631),
     }},
    {"kind": "formula", "metrics": {"leak": "{line}, S={column}"}, "error": 0.0,
     "where": "Prop. 5.1", "tolerance": 1e-4,
     "columns": ("0.30", "0.35", "0.40", "0.45", "0.50"), "lines": {
         "slope, p=1": (0.4286, 0.5385, 0.6667, 0.8182, 1.0),
     }},
    {"kind": "formula", "metrics": {"partial": "{line}, k={column}"}, "error": 0.0,
     "where": "margins", "tolerance": 1e-4, "columns": (0.25,), "lines": {
         "invariance": (0.3333,),
         "partial exposure": (0.1429,),
     }},
    {"kind": "recomputed", "metrics": {"phase": "{column}"}, "error": 0,
     "where": "Fig. 3d", "tolerance": 0.5,
     "columns": ("kernels", "all three solved", "CD-2 and CD-1 only", "CD-1 only", "none"),
     "lines": {
         "of the grid": (1728, 827, 596, 183, 122),
     }},
    {"kind": "recomputed", "metrics": {"phase": "{line} solved, {column}"}, "error": 0.0005,
     "spread": "rounding", "tolerance": 0.001, "where": "Fig. 3d", "columns": MACHINES, "lines": {
         "CD-1": (0.929, 0.929),
         "CD-2": (0.823, 0.826),
         "CD-3": (0.479, 0.583),
     }},
    # The bars are the additive account of the machine's labels, the signs of its decision values:
    # all 15 agree to 0.0005. The account of the decision values themselves is in no figure.
    {"kind": "read", "metrics": {"magnitudes": "{line}: {column}"}, "error": 0.0005,
     "where": "Fig. 3e", "columns": TYPES, "lines": {
         "rep_1, CD-3": (0.617, 0.331, 0.132, 0.039, 0.069),
         "rep_1, CD-2": (0.599, 0.314, 0.117, 0.024, 0.08),
         "rep_2, CD-3": (0.084, 0.305, 0.132, 0.507, 0.667),
     }},
    {"kind": "recomputed", "metrics": {"magnitudes": "{line}, decision values: {column}"},
     "error": 0.0005, "spread": "rounding", "where": "settings of Fig. 3e", "columns": TYPES,
     "lines": {
         "rep_1, CD-3": (0.399, 0.074, 0.15, 0.214, 0.181),
         "rep_1, CD-2": (0.512, 0.227, 0.117, 0.051, 0.148),
         "rep_2, CD-3": (0.378, 0.068, 0.197, 0.409, 0.089),
     }},
    {"kind": "read", "metrics": {"dispersed": "{line}, S={column}: test MSE"}, "error": 0.005,
     "where": "supplement, dispersed", "columns": SALIENCES, "lines": {
         "svr": (13.23, 11.24, 9.64, 8.31, 7.17, 6.15, 5.21, 4.28, 3.27, 2.02, 0.12),
     }},
    {"kind": "recomputed", "metrics": {"dispersed": "{line}, S={column}: test MSE"}, "error": 0.005,
     "spread": "rounding", "where": "supplement", "columns": SALIENCES, "lines": {
         "ridgeless": (13.23, 11.2, 9.56, 8.21, 7.05, 6.02, 5.06, 4.11, 3.08, 1.76, 0.0),
     }},
    # Additivity, R2, is averaged over trained and new pairs. That is our reading of these figures:
    # on new pairs alone the asymmetric rich networks have 0.7126, the mean is 0.8563 and the figure
    # shows 0.8562.
    {**DENSE, "metrics": {"demo": "addition/{line}, sigma {column}: slope",
                          "addition_rich": "{line}, sigma {column}: slope"},
     "where": "supplement, rich and lazy", "columns": ("1e-06", "1"), "lines": {
         "extrapolation": (0.761, 0.746),
         "asymmetric": (0.368, 0.723),
         "interpolation": (0.994, 0.848),
         "both": (0.912, 0.851),
     }},
    {**DENSE_R2, "metrics": {"demo": "addition/{line}, sigma {column}: mean additivity",
                             "addition_rich": "{line}, sigma {column}: mean additivity"},
     "where": "supplement, rich and lazy", "columns": ("1e-06", "1"), "lines": {
         "extrapolation": (0.9942, 0.9978),
         "asymmetric": (0.8562, 0.9967),
         "interpolation": (1.0, 0.9958),
         "both": (0.997, 0.998),
     }},
    {**DENSE_R2, "metrics": {"addition_rich": "{line}, sigma {column}: mean additivity"},
     "where": "supplement, rich and lazy", "columns": ("1e-05", "0.0001", "0.001", "0.01", "0.1"),
     "lines": {
         "extrapolation": (0.9942, 0.9942, 0.9942, None, 0.9986),
         "asymmetric": (0.8561, 0.8561, 0.8561, None, 0.9436),
         "interpolation": (1.0, 1.0, 1.0, None, 0.9998),
         "both": (0.997, 0.997, 0.997, 0.997, 0.9988),
     }},
    {"kind": "read", "metrics": {"demo": "equivalence/{line}, sigma {column}: accuracy",
                 "te_rich": "mse/{line}, sigma {column}: accuracy"},
     "runs": 6, "error": 0.0, "where": "Fig. 4a", "columns": ("1e-06", "1"), "lines": {
         "te_2_2": (1.0, (0.417, 0.001)),
     }},
    {**DENSE, "metrics": {"addition_deep": "depth_{column}/{line}: slope"},
     "where": "supplement, deep networks", "columns": DEPTHS, "lines": {
         "extrapolation": (0.726, 0.666, 0.651, 0.657),
         "asymmetric": (0.552, 0.441, 0.44, 0.446),
         "interpolation": (1.002, 1.006, 1.007, 1.001),
         "both": (0.899, 0.882, 0.874, 0.865),
     }},
    {**DENSE_R2, "metrics": {"addition_deep": "depth_{column}/{line}: mean additivity"},
     "where": "supplement, deep networks", "columns": DEPTHS, "lines": {
         "extrapolation": (0.9959, 0.9919, 0.9888, 0.9901),
         "asymmetric": (0.9298, 0.9146, 0.9234, 0.9294),
         "interpolation": (1.0, 1.0, 0.9999, 0.9999),
         "both": (0.996, 0.9953, 0.9957, 0.9964),
     }},
    # The figure's bars, and their shares of the sum.
    {"kind": "read", "metrics": {"cd_deep": "{line}: mean |value|, {column}"}, "runs": 6,
     "error": 0.0005, "where": "supplement, deep networks", "columns": TYPES, "lines": {
         "depth_1/cd_1": (2.799, 0.96, 0.705, 0.006, 0.415),
         "depth_1/cd_2": (2.803, 0.922, 0.772, 0.147, 0.393),
         "depth_1/cd_3": (0.652, 1.252, 0.879, 2.66, 1.368),
         "depth_2/cd_1": (2.404, 1.047, 0.523, 0.011, 0.364),
         "depth_2/cd_2": (2.585, 1.049, 0.63, 0.147, 0.396),
         "depth_2/cd_3": (0.424, 1.19, 0.745, 2.401, 1.971),
         "depth_3/cd_1": (2.643, 1.139, 0.581, 0.015, 0.414),
         "depth_3/cd_2": (2.492, 0.922, 0.65, 0.241, 0.462),
         "depth_3/cd_3": (0.405, 1.145, 0.708, 2.309, 2.13),
         "depth_4/cd_1": (2.617, 1.161, 0.57, 0.021, 0.424),
         "depth_4/cd_2": (2.24, 0.832, 0.582, 0.257, 0.45),
         "depth_4/cd_3": (0.413, 1.1, 0.699, 2.251, 2.137),
     }},
    {"kind": "read", "metrics": {"cd_deep": "{line}: {column} share"}, "runs": 6, "error": 0.0003,
     "where": "supplement, deep networks", "columns": TYPES, "lines": {
         "depth_1/cd_1": (0.573, 0.1965, 0.1443, 0.0012, 0.085),
         "depth_1/cd_2": (0.5565, 0.183, 0.1533, 0.0292, 0.078),
         "depth_1/cd_3": (0.0957, 0.1838, 0.1291, 0.3905, 0.2009),
         "depth_2/cd_1": (0.5528, 0.2407, 0.1203, 0.0025, 0.0837),
         "depth_2/cd_2": (0.5378, 0.2182, 0.1311, 0.0306, 0.0824),
         "depth_2/cd_3": (0.063, 0.1768, 0.1107, 0.3567, 0.2928),
         "depth_3/cd_1": (0.5515, 0.2377, 0.1212, 0.0031, 0.0864),
         "depth_3/cd_2": (0.5228, 0.1934, 0.1364, 0.0506, 0.0969),
         "depth_3/cd_3": (0.0605, 0.171, 0.1057, 0.3448, 0.3181),
         "depth_4/cd_1": (0.546, 0.2422, 0.1189, 0.0044, 0.0885),
         "depth_4/cd_2": (0.5136, 0.1908, 0.1335, 0.0589, 0.1032),
         "depth_4/cd_3": (0.0626, 0.1667, 0.1059, 0.3411, 0.3238),
     }},
    {"kind": "read", "metrics": {"te_deep": "depth_{column}/te_2_2: {line}"}, "runs": 6,
     "error": 0.0, "where": "supplement, deep networks", "columns": DEPTHS, "lines": {
         "accuracy": (1.0, 1.0, 1.0, 1.0),
     }},
    # Of the mean curve of six networks: one run is six networks (`dense.study.group_means`).
    {"kind": "read", "metrics": {"te_deep": "depth_{column}/te_2_2: {line}"}, "runs": 1,
     "error": 0.001, "where": "supplement, deep networks", "columns": DEPTHS, "lines": {
         "lowest mean accuracy": (0.417, 0.417, 0.458, 0.458),
     }},
    {"kind": "read", "metrics": {"te_deep": "depth_{column}/te_2_2: {line}"}, "runs": 1,
     "error": 0.5, "where": "supplement, deep networks", "columns": DEPTHS, "lines": {
         "first all right, train": (103, 131, 102, 56),
         "first all right, test": (451, 294, 191, 309),
     }},
    # Images: means over ten seeds. "comp": new combinations of unseen images; "in": trained
    # combinations of unseen images. "mean additivity": over the splits, our reading of the
    # figure. Magnitudes "as shares" were read as heights relative to the highest, and divided by
    # their sum.
    {**IMAGES, "metrics": {"addition_mnist": "{line}, d={column}: slope"},
     "where": "figure of values by distance", "columns": DISTANCES, "lines": {
         "extrapolation": (0.554, 0.605, 0.692, 0.747, 0.776),
         "interpolation": (0.653, 0.692, 0.763, 0.806, 0.834),
         "both": (0.656, 0.699, 0.774, 0.819, 0.833),
         "asymmetric": (0.516, 0.553, 0.613, 0.654, 0.674),
     }},
    # Of the line through the values of new items.
    {"kind": "read", "metrics": {"addition_mnist": "{line}, d={column}: value at 0"}, "runs": 10,
     "error": 0.005, "where": "figure of values by distance", "columns": DISTANCES, "lines": {
         "asymmetric": (-1.58, -1.52, -1.26, -1.06, -0.95),
     }},
    {"kind": "read", "metrics": {"addition_mnist": "{line}, d={column}: comp mse"}, "runs": 10,
     "error": 0.005, "where": "figure of MSE by distance", "columns": DISTANCES, "lines": {
         "extrapolation": (5.485, 4.906, 3.866, 3.328, 3.102),
         "interpolation": (4.92, 4.314, 3.147, 2.686, 2.46),
         "both": (4.617, 4.137, 3.301, 2.867, 2.722),
         "asymmetric": (17.884, 15.994, 11.648, 9.035, 8.035),
     }},
    {"kind": "read", "metrics": {"addition_mnist": "{line}, d={column}: in mse"}, "runs": 10,
     "error": 0.005, "where": "figure of MSE by distance", "columns": DISTANCES, "lines": {
         "extrapolation": (1.935, 1.872, 1.673, 1.696, 1.727),
         "interpolation": (2.998, 2.903, 2.776, 2.776, 2.713),
         "both": (2.478, 2.424, 2.225, 2.189, 2.107),
         "asymmetric": (1.913, 1.827, 1.773, 1.886, 1.89),
     }},
    {**IMAGES_R2, "metrics": {"addition_mnist": "{line}, d={column}: mean additivity"},
     "where": "figure of additivity by distance", "columns": DISTANCES, "lines": {
         "extrapolation": (0.9849, 0.9855, 0.9886, 0.9889, 0.9894),
         "interpolation": (0.9877, 0.9891, 0.9904, 0.9904, 0.9904),
         "both": (0.9892, 0.9897, 0.9908, 0.9907, 0.9907),
         "asymmetric": (0.9823, 0.9836, 0.9845, 0.9847, 0.9828),
     }},
    {**IMAGES_R2, "metrics": {"cd_mnist": "{line}, d={column}: mean additivity"},
     "where": "figure of additivity by distance", "columns": DISTANCES, "lines": {
         "cd_1": (0.993, 0.9945, 0.9948, 0.9955, 0.996),
         "cd_2": (0.9918, 0.9929, 0.9944, 0.995, 0.9951),
         "cd_3": (0.9524, 0.9733, 0.983, 0.9881, 0.9918),
     }},
    {**IMAGES, "metrics": {"cd_mnist": "{line}, d={column}: comp accuracy"},
     "where": "figure of accuracy by distance", "columns": DISTANCES, "lines": {
         "cd_1": (0.894, 0.91, 0.94, 0.953, 0.963),
         "cd_2": (0.839, 0.87, 0.913, 0.942, 0.944),
         "cd_3": (0.503, 0.424, 0.363, 0.288, 0.229),
     }},
    {**IMAGES, "metrics": {"cd_mnist": "{line}, d={column}: in accuracy"},
     "where": "figure of accuracy by distance", "columns": DISTANCES, "lines": {
         "cd_1": (0.946, 0.957, 0.969, 0.972, 0.976),
         "cd_2": (0.951, 0.961, 0.971, 0.976, 0.977),
         "cd_3": (0.962, 0.968, 0.972, 0.975, 0.975),
     }},
    {**IMAGES, "metrics": {"cd_mnist": "{line}, d=20: magnitude {column}"}, "where": "figure 5d",
     "columns": TYPES, "lines": {
         "cd_1": (0.546, 0.248, 0.115, 0.008, 0.083),
         "cd_2": (0.542, 0.232, 0.128, 0.021, 0.078),
         "cd_3": (0.261, 0.12, 0.177, 0.381, 0.061),
     }},
    {**IMAGES, "metrics": {"cd_mnist": "{line}: magnitude {column}"},
     "where": "figure of magnitudes by distance, as shares", "columns": TYPES, "lines": {
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
    {**IMAGES, "metrics": {"te_mnist": "te_5_5_hubs_4, d={column}: {line}"}, "where": "figure 4d",
     "columns": DISTANCES, "lines": {
         "comp accuracy": (0.529, 0.58, 0.76, 0.831, 0.891),
         "in accuracy": (0.704, 0.733, 0.817, 0.87, 0.885),
     }},
    {**IMAGES, "metrics": {"te_mnist": "all hubs, d={column}: {line}"},
     "where": "figure 5e, one hub per class and four pooled", "columns": DISTANCES, "lines": {
         "comp accuracy": (0.513, 0.539, 0.674, 0.728, 0.785),
         "in accuracy": (0.757, 0.783, 0.843, 0.887, 0.896),
     }},
    {**IMAGES, "metrics": {"addition_cifar_resnet": "{column}, d=0: {line}"},
     "where": "figure of CIFAR-10 values", "columns": SPLITS, "lines": {
         "slope": (0.396, 0.468, 0.469, 0.396),
     }},
    {"kind": "read", "metrics": {"addition_cifar_resnet": "{column}, d=0: {line}"},
     "runs": 10, "error": None,  # 2 %: the axis is logarithmic
     "where": "figure of CIFAR-10 MSE",
     "columns": ("extrapolation", "interpolation", "both", "asymmetric"), "lines": {
         "train mse": ((1.67, 0.03), (2.82, 0.06), (2.45, 0.05), (1.76, 0.04)),
         "in mse": ((3.27, 0.07), (5.4, 0.11), (4.49, 0.09), (3.24, 0.06)),
         "comp mse": ((9.23, 0.18), (14.94, 0.3), (9.43, 0.19), (24.66, 0.49)),
     }},
    {**IMAGES_R2, "metrics": {"addition_cifar_resnet": "{column}, d=0: {line}"},
     "where": "figure of CIFAR-10 additivity", "columns": SPLITS, "lines": {
         "mean additivity": (0.9669, 0.9816, 0.9836, 0.9701),
     }},
    {**IMAGES, "metrics": {"cd_cifar_resnet": "{column}, d=0: {line}"},
     "where": "figure of CIFAR-10 accuracy", "columns": CONTEXTS, "lines": {
         "train accuracy": (0.886, 0.864, 0.891),
         "in accuracy": (0.804, 0.791, 0.821),
         "comp accuracy": (0.75, 0.638, 0.468),
     }},
    {**IMAGES_R2, "metrics": {"cd_cifar_resnet": "{column}, d=0: {line}"},
     "where": "figure of CIFAR-10 additivity", "columns": CONTEXTS, "lines": {
         "mean additivity": (0.9849, 0.9746, 0.9845),
     }},
    {**IMAGES, "metrics": {"cd_cifar_resnet": "{line}, d=0: magnitude {column}"},
     "where": "figure of CIFAR-10 magnitudes, as shares", "columns": TYPES, "lines": {
         "cd_1": (0.552, 0.177, 0.15, 0.03, 0.091),
         "cd_2": (0.542, 0.127, 0.19, 0.01, 0.131),
         "cd_3": (0.341, 0.132, 0.221, 0.233, 0.073),
     }},
    {**IMAGES, "metrics": {"addition_cifar_vit": "{column}, d=0: {line}"},
     "where": "figure of CIFAR-10 values", "columns": SPLITS, "lines": {
         "slope": (0.259, 0.321, 0.334, 0.294),
     }},
    {"kind": "read", "metrics": {"addition_cifar_vit": "{column}, d=0: {line}"},
     "runs": 10, "error": None,  # 2 %: the axis is logarithmic
     "where": "figure of CIFAR-10 MSE",
     "columns": ("extrapolation", "interpolation", "both", "asymmetric"), "lines": {
         "train mse": ((2.38, 0.05), (4.58, 0.09), (3.21, 0.06), (2.46, 0.05)),
         "in mse": ((5.6, 0.11), (11.43, 0.23), (7.77, 0.16), (5.17, 0.1)),
         "comp mse": ((11.8, 0.24), (19.03, 0.38), (12.52, 0.25), (29.38, 0.59)),
     }},
    {**IMAGES_R2, "metrics": {"addition_cifar_vit": "{column}, d=0: {line}"},
     "where": "figure of CIFAR-10 additivity", "columns": SPLITS, "lines": {
         "mean additivity": (0.9507, 0.9644, 0.9609, 0.9399),
     }},
    {**IMAGES, "metrics": {"cd_cifar_vit": "{column}, d=0: {line}"},
     "where": "figure of CIFAR-10 accuracy", "columns": CONTEXTS, "lines": {
         "train accuracy": (0.904, 0.916, 0.931),
         "in accuracy": (0.692, 0.72, 0.754),
         "comp accuracy": (0.583, 0.577, 0.461),
     }},
    {**IMAGES_R2, "metrics": {"cd_cifar_vit": "{column}, d=0: {line}"},
     "where": "figure of CIFAR-10 additivity", "columns": CONTEXTS, "lines": {
         "mean additivity": (0.8666, 0.9029, 0.9545),
     }},
    {**IMAGES, "metrics": {"cd_cifar_vit": "{line}, d=0: magnitude {column}"},
     "where": "figure of CIFAR-10 magnitudes, as shares", "columns": TYPES, "lines": {
         "cd_1": (0.537, 0.162, 0.147, 0.037, 0.118),
         "cd_2": (0.478, 0.104, 0.161, 0.14, 0.116),
         "cd_3": (0.322, 0.069, 0.183, 0.311, 0.114),
     }},
)
# fmt: on

# Claims in words; `published.claims` describes the layout.
CLAIMS = {
    "leak_shrinks_with_salience": {
        "sentence": "The higher the salience of single components, the less leaks",
        "where": "figure 3a and b, proposition 5.1",
        "chains": [
            [
                ("leak", "slope, p=1, S=0.50"),
                ("leak", "slope, p=1, S=0.45"),
                ("leak", "slope, p=1, S=0.40"),
                ("leak", "slope, p=1, S=0.35"),
                ("leak", "slope, p=1, S=0.30"),
            ]
        ],
    },
    "partial_exposure_is_harder": {
        "sentence": "Partial exposure leaves a smaller margin than invariance",
        "where": "figure of partial exposure",
        "chains": [[("partial", "invariance, k=0.25"), ("partial", "partial exposure, k=0.25")]],
    },
    "context_tasks_are_nested": {
        "sentence": "Fewer kernels solve CD-2 than CD-1, and fewer still CD-3",
        "where": "figure 3d",
        "chains": [
            [
                ("phase", "CD-1 solved, svm"),
                ("phase", "CD-2 solved, svm"),
                ("phase", "CD-3 solved, svm"),
            ],
        ],
    },
    "context_wins_at_rep_2": {
        "sentence": "At representation 2, the context alone is the largest term of the machine's "
        "decision values on CD-3",
        "where": "figure 3e",
        "chains": [
            [
                ("magnitudes", "rep_2, CD-3, decision values: context"),
                ("magnitudes", "rep_2, CD-3, decision values: {0}"),
            ]
        ],
        "each": ("right", "wrong", "sensory", "memorization"),
    },
    "depth_makes_lookup_tables": {
        "sentence": "The deeper a wide random network, the less salient single components are "
        "and the more their full conjunction",
        "where": "figure 2, proposition B.2",
        "chains": [
            [
                ("salience", "{0}, depth 1: S(1;3)"),
                ("salience", "{0}, depth 2: S(1;3)"),
                ("salience", "{0}, depth 5: S(1;3)"),
                ("salience", "{0}, depth 10: S(1;3)"),
                ("salience", "{0}, depth 20: S(1;3)"),
            ],
            [
                ("salience", "{0}, depth 20: S(3;3)"),
                ("salience", "{0}, depth 10: S(3;3)"),
                ("salience", "{0}, depth 5: S(3;3)"),
                ("salience", "{0}, depth 2: S(3;3)"),
                ("salience", "{0}, depth 1: S(3;3)"),
            ],
        ],
        "each": ("step", "relu", "leaky_relu", "rectified_quadratic", "gaussian"),
    },
    "pairs_are_most_salient_in_between": {
        "sentence": "The salience of pairs of components first rises with depth and then falls, "
        "for most nonlinearities (for the Gaussian it falls)",
        "where": "figure 2",
        "chains": [
            [("salience", "{0}, depth {1}: S(2;3)"), ("salience", "{0}, depth 1: S(2;3)")],
            [("salience", "{0}, depth {1}: S(2;3)"), ("salience", "{0}, depth 20: S(2;3)")],
        ],
        "each": (
            ("step", 2),
            ("relu", 5),
            ("leaky_relu", 10),
            ("rectified_quadratic", 2),
        ),
    },
    "rich_networks_solve_equivalence": {
        "sentence": "Rich networks solve transitive equivalence better than lazy ones",
        "where": "figure 4a",
        "chains": [
            [
                ("te_rich", "mse/te_2_2, sigma 1e-06: accuracy"),
                ("te_rich", "mse/te_2_2, sigma 1: accuracy"),
            ],
        ],
    },
    "lazy_networks_stay_at_chance": {
        "sentence": "On new pairs of transitive equivalence lazy networks stay at chance or below",
        "where": "section on transitive equivalence",
        # At chance accuracy is 0.5, so the rule's tolerance of 5 % is allowed above it.
        "chains": [[0.525, ("te_rich", "mse/te_2_2, sigma 1: accuracy")]],
    },
    "rich_weights_mirror_the_classes": {
        "sentence": "Rich networks weight equivalent items of both components alike and others "
        "oppositely, more than lazy networks do",
        "where": "figure 4b and c",
        "chains": [
            [
                ("te_rich", "mse/te_2_2, sigma 1e-06: weights, equivalent items"),
                ("te_rich", "mse/te_2_2, sigma 1: weights, equivalent items"),
            ],
            [
                ("te_rich", "mse/te_2_2, sigma 1: weights, other items"),
                ("te_rich", "mse/te_2_2, sigma 1e-06: weights, other items"),
            ],
        ],
    },
    "rich_networks_help_or_hurt": {
        "sentence": "Rich networks add better than lazy ones in interpolation, and worse from "
        "an anchor at the end",
        "where": "supplement, rich and lazy",
        "chains": [
            [
                ("addition_rich", "interpolation, sigma 1e-06: slope"),
                ("addition_rich", "interpolation, sigma 1: slope"),
            ],
            [
                ("addition_rich", "asymmetric, sigma 1: slope"),
                ("addition_rich", "asymmetric, sigma 1e-06: slope"),
            ],
        ],
    },
    "lazy_networks_keep_their_features": {
        "sentence": "Training leaves the features of lazy networks as they were: their "
        "salience of single components is the same",
        "where": "supplement, rich and lazy, similarities",
        "equal": [
            [
                ("addition_rich", "{0}, sigma 1: S(1;2) after"),
                ("addition_rich", "{0}, sigma 1: S(1;2) before"),
            ]
        ],
        "each": ("extrapolation", "asymmetric", "interpolation", "both"),
    },
    "memorization_grows_with_depth": {
        "sentence": "In CD-3 dense networks memorize more, the deeper they are",
        "where": "supplement, deep networks",
        "chains": [
            [
                ("cd_deep", "depth_4/cd_3: memorization share"),
                ("cd_deep", "depth_3/cd_3: memorization share"),
                ("cd_deep", "depth_2/cd_3: memorization share"),
                ("cd_deep", "depth_1/cd_3: memorization share"),
            ],
        ],
    },
    "equivalence_dips_first": {
        "sentence": "On transitive equivalence accuracy falls below chance before it rises",
        "where": "supplement, deep networks",
        "chains": [
            [
                ("te_deep", "depth_{0}/te_2_2: accuracy"),
                0.5,
                ("te_deep", "depth_{0}/te_2_2: lowest mean accuracy"),
            ]
        ],
        "each": (1, 2, 3, 4),
    },
    "digits_apart_leak_less": {
        "sentence": "The sums of ConvNets shrink less if digits are 20 pixels apart than if one "
        "lies upon the other",
        "where": "figure 5, figure of values by distance",
        "chains": [[("addition_mnist", "{0}, d=20: slope"), ("addition_mnist", "{0}, d=0: slope")]],
        "each": ("extrapolation", "interpolation", "both", "asymmetric"),
    },
    "every_distance_leaks_less": {
        "sentence": "The further digits are apart, the less the sums of ConvNets shrink, in every "
        "step of 5 pixels",
        "where": "figure of values by distance",
        "chains": [
            [
                ("addition_mnist", "{0}, d=20: slope"),
                ("addition_mnist", "{0}, d=15: slope"),
                ("addition_mnist", "{0}, d=10: slope"),
                ("addition_mnist", "{0}, d=5: slope"),
                ("addition_mnist", "{0}, d=0: slope"),
            ]
        ],
        "each": ("extrapolation", "interpolation", "both", "asymmetric"),
    },
    "distance_makes_digits_salient": {
        "sentence": "The further digits are apart, the more salient single digits are in layer 11 "
        "of untrained ConvNets",
        "where": "figure of salience by distance",
        "chains": [
            [
                ("addition_mnist", "{0}, d=20: salience"),
                ("addition_mnist", "{0}, d=15: salience"),
                ("addition_mnist", "{0}, d=10: salience"),
                ("addition_mnist", "{0}, d=5: salience"),
                ("addition_mnist", "{0}, d=0: salience"),
            ]
        ],
        "each": ("extrapolation",),
    },
    "inside_or_outside_is_alike": {
        "sentence": "With two anchors it makes no difference whether new items lie between "
        "them or beyond: sums shrink alike",
        "where": "figure of values by distance; proposition 5.1 says so of kernels",
        "equal": [
            [
                ("addition_mnist", "interpolation, d=0: slope"),
                ("addition_mnist", "both, d=0: slope"),
            ]
        ],
    },
    "inside_or_outside_is_alike_apart": {
        "sentence": "The same of digits that are apart",
        "where": "figure of values by distance",
        "equal": [
            [
                ("addition_mnist", "interpolation, d={0}: slope"),
                ("addition_mnist", "both, d={0}: slope"),
            ]
        ],
        "each": (5, 10, 15, 20),
    },
    "known_sums_do_not_mind_distance": {
        "sentence": "On known combinations of new images, errors barely depend on how far "
        "digits are apart (a factor of 1.2, which is ours)",
        "where": "figure of MSE by distance, in-distribution",
        "equal": [
            [("addition_mnist", "{0}, d=20: in mse"), ("addition_mnist", "{0}, d=0: in mse")]
        ],
        "each": ("extrapolation", "interpolation", "both", "asymmetric"),
        "factor": 1.2,
    },
    "two_anchors_leak_less": {
        "sentence": "With two anchors in place of one, sums shrink less",
        "where": "figure 5, figure of values by distance",
        "chains": [
            [
                ("addition_mnist", "{0}, d={1}: slope"),
                ("addition_mnist", "extrapolation, d={1}: slope"),
            ]
        ],
        "each": (("both", 0), ("both", 20), ("interpolation", 0), ("interpolation", 20)),
    },
    "shortcut_wins_apart": {
        "sentence": "Digits apart, ConvNets solve CD-3 worse, and below chance",
        "where": "figure 5d, figure of accuracy by distance",
        "chains": [
            [
                ("cd_mnist", "cd_3, d=0: comp accuracy"),
                ("cd_mnist", "cd_3, d=20: comp accuracy"),
            ],
            [0.5, ("cd_mnist", "cd_3, d=20: comp accuracy")],
        ],
    },
    "easier_contexts_gain_apart": {
        "sentence": "Digits apart, ConvNets solve CD-1 and CD-2 better",
        "where": "figure of accuracy by distance",
        "chains": [
            [("cd_mnist", "{0}, d=20: comp accuracy"), ("cd_mnist", "{0}, d=0: comp accuracy")]
        ],
        "each": ("cd_1", "cd_2"),
    },
    "context_alone_in_cd_3": {
        "sentence": "On CD-3 ConvNets use the context alone more than the right conjunctions, on "
        "CD-1 the other way round",
        "where": "figure 5d",
        "chains": [
            [
                ("cd_mnist", "cd_3, d=20: magnitude context"),
                ("cd_mnist", "cd_3, d=20: magnitude right"),
            ],
            [
                ("cd_mnist", "cd_1, d=20: magnitude right"),
                ("cd_mnist", "cd_1, d=20: magnitude context"),
            ],
        ],
    },
    "convnets_solve_equivalence_apart": {
        "sentence": "Digits apart, trained ConvNets solve transitive equivalence, which no fixed "
        "representation can: better than chance, and than with digits together",
        "where": "figure 4d",
        "chains": [
            [
                ("te_mnist", "te_5_5_hubs_4, d=20: comp accuracy"),
                ("te_mnist", "te_5_5_hubs_4, d=0: comp accuracy"),
            ],
            [("te_mnist", "te_5_5_hubs_4, d=20: comp accuracy"), 0.5],
        ],
    },
    "larger_networks_fail_cd_3_too": {
        "sentence": "ResNets and vision transformers have CD-1 above chance, and CD-3 below",
        "where": "figure of CIFAR-10 accuracy",
        "chains": [
            [
                ("cd_cifar_{0}", "cd_1, d=0: comp accuracy"),
                0.5,
                ("cd_cifar_{0}", "cd_3, d=0: comp accuracy"),
            ]
        ],
        "each": ("resnet", "vit"),
    },
}

# Why ours does not match, and what could tell; `published.claims` describes the layout.
MORE_ADDITIVE = (
    "unknown: in every recorded cell of CD-1 and CD-2 ours is higher, by 0.001 to 0.003. Of the "
    "other 14 numbers of the two cells 9 match and none is a mismatch. No choice of the splits "
    "that are fitted and averaged comes within 0.001 of both numbers. Noise of means over 100 "
    "images is half of our 1 - R2 (simulated): 50 images would give 0.9953 and 0.9961 at "
    "distances 10 and 15, still above the paper's 0.9944 and 0.9950",
    "the additivity at earlier epochs; the metric 'mean additivity, half of the images' of other "
    "runs, which measures the noise",
)
HALF_AS_LARGE = (
    "published: inferred from the fit. In 10 of 12 panels (one task at one depth) the figure's "
    "bars are 0.493 to 0.502 of ours, in the others 0.454 (CD-1 at depth 2) and 0.453 (CD-2 at "
    "depth 4). The average over six networks before training, whose values are near 0, and six "
    "after it has the ratio 6/12; with five after it, 5/11. With the nearer of the two in each "
    "panel, of our 60 bars 46 match, 14 are underpowered, 0 do not match",
    "the published table of values: does it have rows from before training, and only five "
    "networks after it in two panels? With another loss (optim.loss=cross_entropy) or stopped at "
    "a loss of 0.01 (optim.stop=0.01) bars are near the figure's, but 6 and 21 do not match",
)
CAUSES = {
    "cd_deep.depth_1_cd_1_mean_value": HALF_AS_LARGE,
    "cd_deep.depth_1_cd_2_mean_value": HALF_AS_LARGE,
    "cd_deep.depth_1_cd_3_mean_value": HALF_AS_LARGE,
    "cd_deep.depth_2_cd_1_mean_value": HALF_AS_LARGE,
    "cd_deep.depth_2_cd_2_mean_value": HALF_AS_LARGE,
    "cd_deep.depth_2_cd_3_mean_value": HALF_AS_LARGE,
    "cd_deep.depth_3_cd_1_mean_value": HALF_AS_LARGE,
    "cd_deep.depth_3_cd_2_mean_value": HALF_AS_LARGE,
    "cd_deep.depth_3_cd_3_mean_value": HALF_AS_LARGE,
    "cd_deep.depth_4_cd_1_mean_value": HALF_AS_LARGE,
    "cd_deep.depth_4_cd_2_mean_value": HALF_AS_LARGE,
    "cd_deep.depth_4_cd_3_mean_value": HALF_AS_LARGE,
    "te_deep.depth_3_te_2_2_first_all_right_train": (
        "unknown: the paper's settings of this task are not published, ours are those of context "
        "dependence. The latest of our 50 groups of six networks is right at step 101; the mean "
        "step is 32 earlier than the paper's at this depth, and 14 later at depth 4",
        "the order of the training samples and batches smaller than the set, at all four depths",
    ),
    "cd_mnist.cd_2_d_10_mean_additivity": MORE_ADDITIVE,
    "cd_mnist.cd_2_d_15_mean_additivity": MORE_ADDITIVE,
}
