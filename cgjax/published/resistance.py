"""Claims of "Gradient Descent Resists Compositionality", and a prototype's numbers; literals only.

The paper prints curves and no number: its claims are orderings. A `sentence` gives their sense, not
their wording; thresholds (0.05, 0.5, 0.001) are ours. The numbers are of other code with
the paper's settings (PyTorch for digits, NumPy for the plane, JAX for SCAN), mean and standard
deviation over seeds.
"""

PAPER = "Anonymous, under review"

# The layout of these tables is told in `published.read`.
# fmt: off
TABLES = (
    {"kind": "recomputed", "metrics": {"mnist": "{line}: {column}"}, "error": 0.0,
     "where": "figure 3a at step 200, 5 seeds of 600 samples",
     "columns": ("train accuracy", "test accuracy", "S_2"), "lines": {
         "A": ((0.974, 0.008), (0.736, 0.021), (0.375, 0.0)),
         "B": ((0.935, 0.014), (0.935, 0.012), (0.204, 0.0)),
     }},
    {"kind": "recomputed", "metrics": {"plane": "{line}: {column}"}, "error": 0.0,
     "where": "figure 5 at step 1024, 5 seeds",
     "columns": ("train accuracy", "test accuracy", "S_2"), "lines": {
         "A": ((0.996, 0.001), (0.872, 0.114), (0.081, 0.0)),
         "control": ((0.994, 0.003), (0.997, 0.005), (0.048, 0.0)),
     }},
    {"kind": "recomputed", "metrics": {"scan": "{line}: test accuracy, whole set"}, "error": 0.0,
     "where": "figure 3b at step 2,000, 2 seeds", "columns": ("",), "lines": {
         "A": ((0.0021, 0.0017),),
         "B": ((0.9999, 0.0),),
     }},
    {"kind": "recomputed", "metrics": {"control": "guess, scale {line}: test accuracy"},
     "error": 0.0, "where": "plane, loss 0.1, 200,000 draws", "columns": ("",), "lines": {
         "2, biases 0": ((0.464, 0.0),), "3, biases 0": ((0.442, 0.0),),
         "2, biases 1": ((0.620, 0.0),), "3, biases 1": ((0.579, 0.0),),
     }},
    {"kind": "recomputed", "metrics": {"control": "{column}, scale {line}: test accuracy"},
     "error": 0.0, "where": "plane, first crossing of loss 0.1, 200 seeds",
     "columns": ("sgd", "gd"), "lines": {
         "1, biases 0": ((0.637, 0.0), (0.622, 0.0)), "2, biases 0": ((0.474, 0.0), (0.461, 0.0)),
         "3, biases 0": ((0.463, 0.0), (0.434, 0.0)), "2, biases 1": ((0.582, 0.0), (0.559, 0.0)),
         "3, biases 1": ((0.506, 0.0), (0.486, 0.0)),
     }},
)

# Orderings, in the form of `published.read_claims`. In the digits' runs "A" is held against "B", on
# the plane against "control".
CLAIMS = (
    {"claim": "A trains faster", "where": "figures 3a and 3b",
     "rows": {"demo": ("mnist/",), "mnist": ("",), "scan": ("",)},
     "sentence": "training accuracy increases faster in A than in B",
     "left": "A: early train accuracy", "right": "B: early train accuracy", "direction": "above"},
    {"claim": "A has the larger gap", "where": "figures 3a and 3b",
     "rows": {"demo": ("mnist/",), "mnist": ("",), "scan": ("",)},
     "sentence": "the gap between training and test is much larger in A",
     "left": "A: gap", "right": "B: gap", "direction": "above"},
    {"claim": "B has hardly a gap (0.05)", "where": "figure 3a",
     "rows": {"demo": ("mnist/",), "mnist": ("",)},
     "sentence": "in B training and test stay close",
     "left": "B: gap", "right": 0.05, "direction": "below"},
    {"claim": "A uses X_2 more", "where": "proposition 4",
     "rows": {"demo": ("mnist/",), "mnist": ("",)},
     "sentence": "dY/dX_j is not zero after an update where X_j is informative",
     "left": "A: S_2", "right": "B: S_2", "direction": "above"},
    {"claim": "A tells of Y_2 when X_2 is free", "where": "propositions 1 and 4",
     "rows": {"mnist": ("",)}, "sentence": "the conditional independence property is violated",
     "left": "A: interventional information", "right": "B: interventional information",
     "direction": "above"},
    {"claim": "A fits faster at first", "where": "section 6, figure 5", "rows": {"plane": ("",)},
     "sentence": "the first steps already place the boundary",
     "left": "A: early train accuracy", "right": "control: early train accuracy",
     "direction": "above"},
    {"claim": "A fails more on the test", "where": "section 6, figures 5 and 6",
     "rows": {"demo": ("plane/",), "plane": ("",)},
     "sentence": "the boundary is not the vertical line",
     "left": "A: test accuracy", "right": "control: test accuracy", "direction": "below"},
    {"claim": "A uses X_2 more", "where": "proposition 4",
     "rows": {"demo": ("plane/",), "plane": ("",)},
     "sentence": "dY/dX_j is not zero after an update where X_j is informative",
     "left": "A: S_2", "right": "control: S_2", "direction": "above"},
    {"claim": "A tells of Y_2 when X_2 is free", "where": "propositions 1 and 4",
     "rows": {"plane": ("",)}, "sentence": "the conditional independence property is violated",
     "left": "A: interventional information", "right": "control: interventional information",
     "direction": "above"},
    {"claim": "a step raises D_2, X_2 telling", "where": "propositions 3 and 4",
     "rows": {"one_step": ("plane/", "mnist/")},
     "sentence": "dY/dX_j is not zero after an update where X_j is informative",
     "left": "A: mean one step on A: D_2", "right": 0.0, "direction": "above"},
    {"claim": "more than with X_2 re-drawn", "where": "proposition 4",
     "rows": {"one_step": ("plane/", "mnist/")},
     "sentence": "dY/dX_j is not zero after an update where X_j is informative",
     "left": "A: mean one step on A: D_2", "right": "A: mean one step on re-drawn: D_2",
     "direction": "above"},
    {"claim": "head 1 uses X_2 more in A", "where": "proposition 5", "rows": {"heads": ("",)},
     "sentence": "dY_i/dX_j is not zero for j != i after an update",
     "left": "plane/A: S_2", "right": "plane/control: S_2", "direction": "above"},
    {"claim": "head 2 uses X_1 more in A", "where": "proposition 5", "rows": {"heads": ("",)},
     "sentence": "dY_i/dX_j is not zero for j != i after an update",
     "left": "plane/A: S_1 of head 2", "right": "plane/control: S_1 of head 2",
     "direction": "above"},
    {"claim": "updates do not cancel (0.5)", "where": "section 4.3", "rows": {"heads": ("",)},
     "sentence": "the updates are unlikely to be cancelled",
     "left": "plane/A: mean heads: ratio of norms", "right": 0.5, "direction": "above"},
    {"claim": "towers do not repair A", "where": "abstract and section 7",
     "rows": {"remedies": ("",)}, "sentence": "architecture alone cannot solve it",
     "left": "plane_towers/A, penalty 0: test accuracy",
     "right": "plane_towers/control, penalty 0: test accuracy", "direction": "below"},
    {"claim": "towers leave A's information", "where": "abstract and section 7",
     "rows": {"remedies": ("",)}, "sentence": "architecture alone cannot solve it",
     "left": "plane_towers/A, penalty 0: interventional information",
     "right": "plane_towers/control, penalty 0: interventional information", "direction": "above"},
    {"claim": "A's end is nearer to the start", "where": "figure 1, right",
     "rows": {"landscape": ("",)},
     "sentence": "gradient descent brings parameters closer to the non-compositional solution",
     "left": "distance from start to A", "right": "distance from start to control",
     "direction": "below"},
    {"claim": "forward mode: the same curves (1e-3)", "where": "introduction",
     "rows": {"gradients": ("",)},
     "sentence": "the bias is not caused by how the gradient is computed",
     "left": "forward: largest difference of S_2, 16 steps", "right": 0.001, "direction": "below"},
    {"claim": "SGD composes less than guesses", "where": "title and introduction",
     "rows": {"optimisers": ("",)}, "sentence": "the bias is caused by gradient descent",
     "left": "sgd, scale 2: test accuracy", "right": "guess, scale 2: test accuracy",
     "direction": "below"},
)
