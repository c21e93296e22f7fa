"""Numbers of Lepori, Serre and Pavlick 2023, from the result files they released; literals only.

Rows are rules, and "wide", "simclr", "pruned", "vit" across rules; "agreement" and "anaphora" pool
the singular and the plural rule, "means" all rules. Metrics are "condition/subroutine: number": of
the subnetwork (sub) or of the network without it (abl), accuracy where the odd input breaks the
subroutine (target) or the other one, their difference clipped at chance, and the share of weights
kept. Conditions: BERT-small from scratch and pretrained, ResNet-50, Wide ResNet-50-2, and ResNet-50
after SimCLR; "random_weights" are those of the first, others carry their condition's name before.

There are two tables. ", selected" marks the paper's numbers: test data, three mask seeds, and for
each base and subroutine the one of 24 configurations whose ablation looks best on validation data.
Random weights have the configurations that were selected for trained ones. Numbers without the
mark are of one fixed configuration: first score 0.05, rate 1e-2, all layers. Our rows fix the same
one beforehand, except for pretrained BERTs, whose rate is 1e-4.

Deviations are over `n` bases, of the means of their mask runs; 0 where one base counts. Differences
are clipped at chance, 1 in 4, so their range is 0.75. The share kept and p span orders of
magnitude; the share counts the pooler of a BERT, which nothing uses. Bases with an accuracy below
0.9 are masked too; means leave them out.
"""

PAPER = "Lepori et al. 2023"

ROWS = {
    "agreement_singular": "Masks of BERT, rule: subject and verb singular",
    "agreement_plural": "Masks of BERT, rule: subject and verb plural",
    "anaphora_singular": "Masks of BERT, rule: antecedent and pronoun singular",
    "anaphora_plural": "Masks of BERT, rule: antecedent and pronoun plural",
    "inside_contact": "Masks of vision networks, rule: inside and in contact",
    "inside_number": "Masks of vision networks, rule: inside, and a given number",
    "number_contact": "Masks of vision networks, rule: a given number, and in contact",
    "wide": "Masks of Wide ResNet-50-2",
    "simclr": "Masks of ResNet-50 after contrastive pretraining",
    "pruned": "Masks of bases pruned by a mask for the whole rule",
    "vit": "A vision transformer of 12 layers as a base",
}

# The seeds of which our numbers are defined: those of fixed masks, of selected masks, and of masks
# of random weights, which take the configuration that the trained network of their seed selects.
LEARNED = "bases with an accuracy of 0.9"
SELECTED = "bases with an accuracy of 0.9 and a valid mask"
RANDOM = "seeds whose trained base has a valid mask"
# What all tables of masks have in common.
MASKS = {
    "kind": "printed",
    "error": 0.0,
    "factor": {"kept": 2.0},
    "scale": {"sub_diff": 0.75, "abl_diff": 0.75},
    "columns": (
        "sub target", "sub other", "abl target", "abl other", "sub_diff", "abl_diff", "kept",
    ),
}  # fmt: skip
# `published.reading.read` describes the layout of these tables; a line is a tuple of words.
# fmt: off
TABLES = (
    # Test accuracy of the bases; those below 0.9 are left out, here and everywhere. All bases of
    # agreement_singular have 0.997 at least, so their mean is not known.
    {"kind": "printed", "error": 0.0, "where": "base models, seeds 0 to 2",
     "n": {"": 3, ("inside_contact", "resnet50"): 2, ("anaphora_singular", "pretrained"): 1},
     "metrics": {"{line[0]}": "{line[1]}/base: {column}"},
     "columns": ("test accuracy",), "lines": {
         ("inside_contact", "resnet50"): ((1.0000, 0.0000),),
         ("inside_number", "resnet50"): ((0.9983, 0.0006),),
         ("number_contact", "resnet50"): ((0.9950, 0.0017),),
         ("agreement_plural", "scratch"): ((1.0000, 0.0000),),
         ("agreement_plural", "pretrained"): ((1.0000, 0.0000),),
         ("anaphora_singular", "scratch"): ((1.0000, 0.0000),),
         ("anaphora_singular", "pretrained"): ((1.0000, 0.0000),),
         ("anaphora_plural", "scratch"): ((1.0000, 0.0000),),
         ("anaphora_plural", "pretrained"): ((1.0000, 0.0000),),
     }, "left_out": {
         ("inside_contact", "resnet50"): ((0.756,),),
         ("anaphora_singular", "pretrained"): ((0.635, 0.655),),
     }},
    {"kind": "printed", "error": 0.0, "where": "base models, seeds 0 to 2",
     "n": 3,
     "metrics": {"{line[0]}": "{line[1]}/base: {column}", "wide": "{line[0]}/base: {column}"},
     "columns": ("test accuracy",), "lines": {
         ("inside_contact", "wideresnet50"): ((0.9980, 0.0026),),
         ("inside_number", "wideresnet50"): ((0.9970, 0.0010),),
         ("number_contact", "wideresnet50"): ((0.9960, 0.0020),),
     }},
    {"kind": "printed", "error": 0.0, "where": "base models, seeds 0 to 2",
     "n": 3,
     "metrics": {"{line[0]}": "{line[1]}/base: {column}", "simclr": "{line[0]}/base: {column}"},
     "columns": ("test accuracy",), "lines": {
         ("inside_contact", "simclr"): ((1.0000, 0.0000),),
         ("inside_number", "simclr"): ((0.9990, 0.0010),),
         ("number_contact", "simclr"): ((0.9960, 0.0010),),
     }},
    {"kind": "printed", "error": 0.0, "where": "ViT of 12 layers, best of its sweep",
     "runs": 1,
     "metrics": {"vit": "{line}/base: {column}"}, "columns": ("validation accuracy",), "lines": {
         "number_contact": (0.854,), "inside_number": (0.514,), "inside_contact": (0.430,),
     }},
    # Fixed: one configuration for every base (first score 0.05, rate 1e-2, all layers), which the
    # release's search files have like the 23 others: validation data, mask seed 0. Its runs are in
    # tests/golden/subnetworks/published_search_fixed.csv.
    {**MASKS, "where": "search files (published_search_fixed.csv), BERT-small from scratch, fixed",
     "n": 3, "only": LEARNED,
     "metrics": {"{line[0]}": "scratch/{line[1]}: {column}"},
     "lines": {
         ("agreement_singular", "subject"): (
             (1.000, 0.000), (0.666, 0.130), (1.000, 0.000), (0.996, 0.008),
             (0.334, 0.130), (0.004, 0.008), (0.0033, 0.0008)),
         ("agreement_singular", "verb"): (
             (1.000, 0.000), (0.427, 0.052), (0.986, 0.002), (0.997, 0.006),
             (0.573, 0.052), (-0.011, 0.007), (0.0070, 0.0036)),
         ("agreement_plural", "subject"): (
             (1.000, 0.000), (0.448, 0.120), (0.751, 0.244), (0.980, 0.018),
             (0.552, 0.120), (-0.229, 0.227), (0.0066, 0.0022)),
         ("agreement_plural", "verb"): (
             (1.000, 0.000), (0.337, 0.055), (0.729, 0.398), (0.758, 0.402),
             (0.663, 0.055), (-0.029, 0.019), (0.0142, 0.0060)),
         ("anaphora_singular", "antecedent"): (
             (1.000, 0.000), (0.852, 0.223), (0.873, 0.219), (1.000, 0.000),
             (0.148, 0.223), (-0.127, 0.219), (0.0112, 0.0036)),
         ("anaphora_singular", "pronoun"): (
             (1.000, 0.000), (0.700, 0.030), (1.000, 0.000), (1.000, 0.000),
             (0.300, 0.030), (0.000, 0.000), (0.0038, 0.0003)),
         ("anaphora_plural", "antecedent"): (
             (1.000, 0.000), (0.595, 0.190), (0.982, 0.032), (0.990, 0.017),
             (0.405, 0.190), (-0.008, 0.014), (0.0089, 0.0052)),
         ("anaphora_plural", "pronoun"): (
             (1.000, 0.000), (0.412, 0.098), (0.683, 0.334), (0.858, 0.166),
             (0.588, 0.098), (-0.175, 0.338), (0.0060, 0.0036)),
     }},
    {**MASKS, "where": "search files (published_search_fixed.csv), ResNet-50, fixed",
     "n": 3, "only": LEARNED,
     "metrics": {"{line[0]}": "resnet50/{line[1]}: {column}"},
     "lines": {
         ("number_contact", "contact"): (
             (0.975, 0.036), (0.306, 0.035), (0.294, 0.080), (0.341, 0.070),
             (0.669, 0.015), (-0.046, 0.026), (0.0307, 0.0056)),
         ("number_contact", "number"): (
             (0.991, 0.012), (0.293, 0.026), (0.377, 0.152), (0.415, 0.185),
             (0.698, 0.037), (-0.043, 0.055), (0.0152, 0.0118)),
     }},
    # Of these and of the next table only means are known.
    {"kind": "printed", "error": 0.0,
     "where": "search files (means of two bases), ResNet-50, fixed",
     "runs": 2, "scale": 0.75, "only": LEARNED,
     "metrics": {"{line[0]}": "resnet50/{line[1]}: {column}"},
     "columns": ("sub_diff", "abl_diff"), "lines": {
         ("inside_contact", "contact"): (0.743, -0.005),
     }},
    # The same search files, over all rules: one configuration, all valid ones, the best of 24.
    {"kind": "printed", "error": 0.0, "where": "search files (means), all rules, {line}",
     "metrics": {"means": "{line}: {column}"},
     "columns": ("abl_diff", "abl_diff, valid configurations", "abl_diff, best of 24"), "lines": {
         "pretrained": (-0.180, -0.041, -0.491), "scratch": (-0.072, 0.003, -0.300),
         "resnet50": (-0.021, -0.021, -0.188), "simclr": (-0.028, -0.038, -0.236),
         "wideresnet50": (-0.031, -0.035, -0.211),
     }},
    # Selected: for each base the configuration with the best ablation on validation data, of 24.
    # Trained bases: means over mask runs, and deviations of the bases' means.
    {**MASKS, "where": "trained bases, BERT-small from scratch, selected",
     "n": 3, "only": SELECTED,
     "metrics": {"{line[0]}": "scratch/{line[1]}: {column}, selected"},
     "lines": {
         ("agreement_singular", "subject"): (
             (1.000, 0.000), (0.532, 0.400), (0.316, 0.140), (0.756, 0.301),
             (0.462, 0.394), (-0.417, 0.236), (0.122, 0.087)),
         ("agreement_singular", "verb"): (
             (0.987, 0.023), (0.665, 0.290), (0.508, 0.400), (0.784, 0.327),
             (0.321, 0.313), (-0.260, 0.303), (0.178, 0.090)),
         ("agreement_plural", "subject"): (
             (1.000, 0.000), (0.449, 0.160), (0.617, 0.278), (0.930, 0.021),
             (0.551, 0.160), (-0.313, 0.268), (0.007, 0.002)),
         ("agreement_plural", "verb"): (
             (0.981, 0.026), (0.413, 0.273), (0.763, 0.157), (0.757, 0.177),
             (0.564, 0.261), (0.003, 0.016), (0.039, 0.045)),
         ("anaphora_singular", "antecedent"): (
             (1.000, 0.000), (0.677, 0.379), (0.770, 0.207), (0.981, 0.017),
             (0.321, 0.377), (-0.211, 0.190), (0.056, 0.077)),
         ("anaphora_singular", "pronoun"): (
             (1.000, 0.000), (0.582, 0.273), (0.612, 0.313), (0.758, 0.278),
             (0.418, 0.273), (-0.135, 0.085), (0.037, 0.035)),
         ("anaphora_plural", "antecedent"): (
             (1.000, 0.000), (0.618, 0.358), (0.426, 0.180), (0.892, 0.085),
             (0.382, 0.358), (-0.461, 0.110), (0.196, 0.179)),
         ("anaphora_plural", "pronoun"): (
             (1.000, 0.000), (0.356, 0.046), (0.626, 0.333), (0.903, 0.137),
             (0.644, 0.046), (-0.278, 0.302), (0.017, 0.018)),
     }},
    {**MASKS, "where": "trained bases, pretrained BERT-small, selected",
     "n": {"": 3, ("anaphora_singular", "antecedent"): 1, ("anaphora_singular", "pronoun"): 1},
     "only": SELECTED,
     "metrics": {"{line[0]}": "pretrained/{line[1]}: {column}, selected"},
     "lines": {
         ("agreement_singular", "subject"): (
             (1.000, 0.000), (0.282, 0.037), (0.333, 0.101), (0.840, 0.138),
             (0.711, 0.037), (-0.506, 0.039), (0.023, 0.020)),
         ("agreement_singular", "verb"): (
             (1.000, 0.000), (0.709, 0.430), (0.583, 0.132), (1.000, 0.000),
             (0.279, 0.408), (-0.417, 0.132), (0.007, 0.005)),
         ("agreement_plural", "subject"): (
             (1.000, 0.000), (0.271, 0.009), (0.271, 0.032), (0.736, 0.033),
             (0.729, 0.009), (-0.462, 0.011), (0.007, 0.005)),
         ("agreement_plural", "verb"): (
             (1.000, 0.000), (0.307, 0.118), (0.399, 0.122), (1.000, 0.000),
             (0.684, 0.109), (-0.601, 0.122), (0.006, 0.008)),
         ("anaphora_singular", "antecedent"): (
             (1.000, 0.000), (0.837, 0.000), (0.248, 0.000), (0.458, 0.000),
             (0.163, 0.000), (-0.208, 0.000), (0.065, 0.000)),
         ("anaphora_singular", "pronoun"): (
             (1.000, 0.000), (0.685, 0.000), (0.328, 0.000), (0.447, 0.000),
             (0.315, 0.000), (-0.118, 0.000), (0.514, 0.000)),
         ("anaphora_plural", "antecedent"): (
             (0.913, 0.151), (0.287, 0.026), (0.313, 0.055), (0.924, 0.130),
             (0.626, 0.177), (-0.608, 0.080), (0.141, 0.169)),
         ("anaphora_plural", "pronoun"): (
             (1.000, 0.000), (0.314, 0.018), (0.535, 0.111), (0.966, 0.052),
             (0.686, 0.018), (-0.431, 0.162), (0.001, 0.001)),
     }},
    {**MASKS, "where": "trained bases, ResNet-50, selected",
     "n": {"": 3, ("inside_contact", "contact"): 2, ("inside_contact", "inside"): 2},
     "only": SELECTED,
     "metrics": {"{line[0]}": "resnet50/{line[1]}: {column}, selected"},
     "lines": {
         ("inside_contact", "contact"): (
             (0.981, 0.021), (0.445, 0.231), (0.637, 0.508), (0.709, 0.405),
             (0.535, 0.252), (-0.071, 0.104), (0.049, 0.004)),
         ("inside_contact", "inside"): (
             (0.988, 0.017), (0.211, 0.055), (0.629, 0.241), (0.740, 0.365),
             (0.735, 0.021), (-0.108, 0.128), (0.064, 0.082)),
         ("inside_number", "inside"): (
             (1.000, 0.000), (0.397, 0.094), (0.385, 0.142), (0.573, 0.119),
             (0.603, 0.094), (-0.187, 0.060), (0.222, 0.169)),
         ("inside_number", "number"): (
             (0.999, 0.000), (0.461, 0.050), (0.729, 0.192), (0.848, 0.235),
             (0.538, 0.051), (-0.119, 0.044), (0.178, 0.072)),
         ("number_contact", "contact"): (
             (0.997, 0.001), (0.454, 0.144), (0.549, 0.117), (0.866, 0.061),
             (0.543, 0.146), (-0.317, 0.086), (0.258, 0.198)),
         ("number_contact", "number"): (
             (0.991, 0.011), (0.428, 0.142), (0.552, 0.223), (0.555, 0.261),
             (0.563, 0.137), (-0.011, 0.029), (0.040, 0.047)),
     }},
    {**MASKS, "where": "trained bases, Wide ResNet-50-2, selected",
     "n": 3, "only": SELECTED,
     "metrics": {"{line[0]}": "wideresnet50/{line[1]}: {column}, selected",
                 "wide": "{line[0]}/{line[1]}: {column}, selected"},
     "lines": {
         ("inside_contact", "contact"): (
             (0.998, 0.001), (0.280, 0.017), (0.540, 0.295), (0.872, 0.086),
             (0.717, 0.017), (-0.332, 0.271), (0.058, 0.038)),
         ("inside_contact", "inside"): (
             (0.903, 0.168), (0.237, 0.006), (0.508, 0.353), (0.481, 0.392),
             (0.650, 0.169), (0.017, 0.032), (0.007, 0.003)),
         ("inside_number", "inside"): (
             (0.935, 0.082), (0.317, 0.017), (0.503, 0.180), (0.611, 0.249),
             (0.617, 0.072), (-0.104, 0.105), (0.023, 0.010)),
         ("inside_number", "number"): (
             (0.994, 0.006), (0.480, 0.169), (0.653, 0.310), (0.796, 0.262),
             (0.514, 0.171), (-0.143, 0.157), (0.071, 0.016)),
         ("number_contact", "contact"): (
             (0.998, 0.001), (0.422, 0.159), (0.412, 0.031), (0.906, 0.037),
             (0.575, 0.161), (-0.493, 0.050), (0.227, 0.042)),
         ("number_contact", "number"): (
             (0.990, 0.015), (0.399, 0.095), (0.524, 0.372), (0.548, 0.369),
             (0.591, 0.109), (-0.024, 0.036), (0.009, 0.006)),
     }},
    {**MASKS, "where": "trained bases, ResNet-50 after SimCLR, selected",
     "n": 3, "only": SELECTED,
     "metrics": {"{line[0]}": "simclr/{line[1]}: {column}, selected",
                 "simclr": "{line[0]}/{line[1]}: {column}, selected"},
     "lines": {
         ("inside_contact", "contact"): (
             (0.715, 0.395), (0.309, 0.044), (0.399, 0.194), (0.763, 0.222),
             (0.404, 0.359), (-0.343, 0.178), (0.070, 0.061)),
         ("inside_contact", "inside"): (
             (1.000, 0.000), (0.338, 0.140), (0.858, 0.187), (0.878, 0.167),
             (0.636, 0.099), (-0.019, 0.021), (0.011, 0.009)),
         ("inside_number", "inside"): (
             (0.837, 0.282), (0.343, 0.080), (0.523, 0.332), (0.692, 0.332),
             (0.494, 0.251), (-0.161, 0.124), (0.024, 0.007)),
         ("inside_number", "number"): (
             (0.991, 0.008), (0.612, 0.170), (0.311, 0.063), (0.317, 0.051),
             (0.380, 0.163), (-0.007, 0.026), (0.257, 0.238)),
         ("number_contact", "contact"): (
             (0.793, 0.255), (0.306, 0.014), (0.349, 0.015), (0.499, 0.024),
             (0.487, 0.242), (-0.150, 0.013), (0.036, 0.002)),
         ("number_contact", "number"): (
             (0.991, 0.002), (0.502, 0.082), (0.732, 0.011), (0.920, 0.055),
             (0.489, 0.084), (-0.188, 0.052), (0.175, 0.243)),
     }},
    # The same networks with random weights in the place of trained ones.
    {**MASKS, "where": "random weights, BERT-small from scratch, selected",
     "n": 3, "only": RANDOM,
     "metrics": {"{line[0]}": "random_weights/{line[1]}: {column}, selected"},
     "lines": {
         ("agreement_singular", "subject"): (
             (1.000, 0.000), (0.207, 0.045), (0.910, 0.089), (0.459, 0.160),
             (0.744, 0.010), (0.448, 0.243), (0.029, 0.026)),
         ("agreement_singular", "verb"): (
             (0.992, 0.005), (0.254, 0.009), (0.888, 0.009), (0.253, 0.008),
             (0.731, 0.013), (0.629, 0.005), (0.334, 0.039)),
         ("agreement_plural", "subject"): (
             (1.000, 0.000), (0.242, 0.061), (0.560, 0.254), (0.490, 0.071),
             (0.724, 0.024), (0.070, 0.184), (0.007, 0.003)),
         ("agreement_plural", "verb"): (
             (0.997, 0.004), (0.230, 0.019), (0.974, 0.041), (0.229, 0.018),
             (0.746, 0.004), (0.723, 0.040), (0.080, 0.101)),
         ("anaphora_singular", "antecedent"): (
             (1.000, 0.000), (0.701, 0.183), (0.978, 0.014), (0.910, 0.057),
             (0.299, 0.183), (0.068, 0.056), (0.016, 0.009)),
         ("anaphora_singular", "pronoun"): (
             (1.000, 0.000), (0.267, 0.003), (0.983, 0.014), (0.286, 0.007),
             (0.733, 0.003), (0.698, 0.008), (0.073, 0.044)),
         ("anaphora_plural", "antecedent"): (
             (1.000, 0.000), (0.482, 0.441), (1.000, 0.000), (0.613, 0.344),
             (0.488, 0.414), (0.387, 0.344), (0.066, 0.084)),
         ("anaphora_plural", "pronoun"): (
             (1.000, 0.000), (0.238, 0.025), (1.000, 0.000), (0.236, 0.011),
             (0.741, 0.008), (0.746, 0.008), (0.021, 0.009)),
     }},
    {**MASKS, "where": "random weights, pretrained BERT-small, selected",
     "n": 3, "only": RANDOM,
     "metrics": {"{line[0]}": "pretrained_random_weights/{line[1]}: {column}, selected"},
     "lines": {
         ("agreement_singular", "subject"): (
             (1.000, 0.000), (0.180, 0.001), (0.879, 0.049), (0.535, 0.046),
             (0.750, 0.000), (0.343, 0.094), (0.015, 0.006)),
         ("agreement_singular", "verb"): (
             (0.999, 0.001), (0.244, 0.010), (0.838, 0.036), (0.244, 0.018),
             (0.744, 0.010), (0.583, 0.044), (0.156, 0.092)),
         ("agreement_plural", "subject"): (
             (1.000, 0.000), (0.207, 0.008), (0.952, 0.042), (0.459, 0.117),
             (0.750, 0.000), (0.493, 0.158), (0.035, 0.023)),
         ("agreement_plural", "verb"): (
             (1.000, 0.000), (0.237, 0.009), (0.980, 0.015), (0.228, 0.008),
             (0.748, 0.003), (0.730, 0.015), (0.102, 0.081)),
         ("anaphora_singular", "antecedent"): (
             (1.000, 0.000), (0.753, 0.160), (0.972, 0.019), (0.833, 0.179),
             (0.247, 0.160), (0.139, 0.166), (0.016, 0.009)),
         ("anaphora_singular", "pronoun"): (
             (1.000, 0.000), (0.265, 0.007), (0.956, 0.057), (0.271, 0.011),
             (0.734, 0.008), (0.684, 0.067), (0.252, 0.168)),
         ("anaphora_plural", "antecedent"): (
             (1.000, 0.000), (0.660, 0.347), (0.991, 0.016), (0.737, 0.401),
             (0.339, 0.346), (0.253, 0.410), (0.068, 0.082)),
         ("anaphora_plural", "pronoun"): (
             (1.000, 0.000), (0.217, 0.000), (1.000, 0.000), (0.221, 0.011),
             (0.750, 0.000), (0.750, 0.000), (0.018, 0.006)),
     }},
    {**MASKS, "where": "random weights, ResNet-50, selected",
     "n": 3, "only": RANDOM,
     "metrics": {"{line[0]}": "random_weights/{line[1]}: {column}, selected"},
     "lines": {
         ("inside_contact", "contact"): (
             (0.455, 0.246), (0.244, 0.017), (0.246, 0.011), (0.252, 0.026),
             (0.202, 0.250), (-0.008, 0.015), (0.143, 0.123)),
         ("inside_contact", "inside"): (
             (0.819, 0.229), (0.188, 0.013), (0.252, 0.019), (0.245, 0.002),
             (0.569, 0.229), (0.004, 0.012), (0.345, 0.407)),
         ("inside_number", "inside"): (
             (0.515, 0.369), (0.387, 0.102), (0.250, 0.007), (0.270, 0.022),
             (0.128, 0.470), (-0.016, 0.013), (0.560, 0.421)),
         ("inside_number", "number"): (
             (0.623, 0.246), (0.245, 0.027), (0.309, 0.029), (0.254, 0.020),
             (0.364, 0.232), (0.050, 0.015), (0.290, 0.092)),
         ("number_contact", "contact"): (
             (0.853, 0.081), (0.357, 0.015), (0.284, 0.007), (0.257, 0.013),
             (0.497, 0.096), (0.023, 0.008), (0.584, 0.390)),
         ("number_contact", "number"): (
             (0.751, 0.430), (0.233, 0.015), (0.252, 0.021), (0.247, 0.027),
             (0.500, 0.431), (0.000, 0.000), (0.039, 0.014)),
     }},
    {**MASKS, "where": "random weights, Wide ResNet-50-2, selected",
     "n": {"": 3, ("inside_number", "inside"): 1, ("inside_number", "number"): 2},
     "only": RANDOM,
     "metrics": {"{line[0]}": "wideresnet50_random_weights/{line[1]}: {column}, selected"},
     "lines": {
         ("inside_contact", "contact"): (
             (0.573, 0.187), (0.244, 0.012), (0.250, 0.007), (0.256, 0.006),
             (0.317, 0.190), (-0.007, 0.003), (0.252, 0.126)),
         ("inside_contact", "inside"): (
             (0.718, 0.226), (0.238, 0.039), (0.255, 0.004), (0.247, 0.006),
             (0.459, 0.232), (0.004, 0.006), (0.121, 0.151)),
         ("inside_number", "inside"): (
             (0.241, 0.000), (0.242, 0.000), (0.216, 0.000), (0.298, 0.000),
             (-0.001, 0.000), (-0.048, 0.000), (0.003, 0.000)),
         ("inside_number", "number"): (
             (0.596, 0.421), (0.245, 0.008), (0.305, 0.005), (0.238, 0.027),
             (0.342, 0.418), (0.052, 0.001), (0.070, 0.084)),
         ("number_contact", "contact"): (
             (0.836, 0.002), (0.386, 0.002), (0.283, 0.005), (0.258, 0.007),
             (0.451, 0.003), (0.020, 0.005), (0.745, 0.003)),
         ("number_contact", "number"): (
             (0.925, 0.128), (0.253, 0.018), (0.254, 0.012), (0.256, 0.012),
             (0.664, 0.140), (-0.002, 0.004), (0.025, 0.009)),
     }},
    # Bases of which a mask for the whole rule has left few weights.
    {**MASKS, "where": "pruned bases, ResNet-50, selected",
     "n": {"": 3, ("inside_contact", "contact"): 2, ("inside_contact", "inside"): 2},
     "only": SELECTED,
     "metrics": {"pruned": "{line[0]}/{line[1]}: {column}, selected"},
     "lines": {
         ("inside_contact", "contact"): (
             (0.987, 0.012), (0.559, 0.183), (0.242, 0.032), (0.632, 0.519),
             (0.428, 0.171), (-0.374, 0.529), (0.001, 0.001)),
         ("inside_contact", "inside"): (
             (1.000, 0.000), (0.230, 0.014), (0.293, 0.041), (0.343, 0.111),
             (0.750, 0.000), (-0.049, 0.070), (0.006, 0.002)),
         ("number_contact", "contact"): (
             (0.998, 0.002), (0.486, 0.206), (0.497, 0.151), (0.881, 0.042),
             (0.513, 0.205), (-0.384, 0.145), (0.019, 0.005)),
         ("number_contact", "number"): (
             (0.975, 0.035), (0.469, 0.077), (0.519, 0.244), (0.587, 0.334),
             (0.506, 0.044), (-0.071, 0.115), (0.022, 0.006)),
     }},
    # z tests with errors clustered by base, as the release has them, of its runs; 0 is below 1e-15.
    {"kind": "recomputed", "error": 0.0, "where": "clustered z tests, resnet50, selected",
     "metrics": {"{line[0]}": "resnet50/{line[1]}: {column}, selected"},
     "factor": 2.0, "floor": 1e-15, "only": SELECTED,
     "columns": ("p of sub_diff", "p of abl_diff"), "lines": {
         ("inside_contact", "contact"): (0.0027, 0.33),
         ("inside_contact", "inside"): (0.0, 0.23),
         ("inside_number", "inside"): (0.0, 6.5e-08),
         ("inside_number", "number"): (0.0, 3.1e-06),
         ("number_contact", "contact"): (1.1e-10, 2.2e-10),
         ("number_contact", "number"): (1e-12, 0.51),
     }},
    {"kind": "recomputed", "error": 0.0, "where": "clustered z tests, simclr, selected",
     "metrics": {"{line[0]}": "simclr/{line[1]}: {column}, selected",
                 "simclr": "{line[0]}/{line[1]}: {column}, selected"},
     "factor": 2.0, "floor": 1e-15, "only": SELECTED,
     "columns": ("p of sub_diff", "p of abl_diff"), "lines": {
         ("inside_contact", "contact"): (0.052, 0.00083),
         ("inside_contact", "inside"): (0.0, 0.11),
         ("inside_number", "inside"): (0.00065, 0.024),
         ("inside_number", "number"): (5.2e-05, 0.63),
         ("number_contact", "contact"): (0.00048, 0.0),
         ("number_contact", "number"): (0.0, 4.3e-10),
     }},
    {"kind": "recomputed", "error": 0.0, "where": "clustered z tests, wideresnet50, selected",
     "metrics": {"{line[0]}": "wideresnet50/{line[1]}: {column}, selected",
                 "wide": "{line[0]}/{line[1]}: {column}, selected"},
     "factor": 2.0, "floor": 1e-15, "only": SELECTED,
     "columns": ("p of sub_diff", "p of abl_diff"), "lines": {
         ("inside_contact", "contact"): (0.0, 0.034),
         ("inside_contact", "inside"): (2.6e-11, 0.35),
         ("inside_number", "inside"): (0.0, 0.085),
         ("inside_number", "number"): (1.8e-07, 0.11),
         ("number_contact", "contact"): (5.7e-10, 0.0),
         ("number_contact", "number"): (0.0, 0.25),
     }},
    # Singular and plural rules of the language together, with standard errors.
    {"kind": "recomputed", "error": 0.0,
     "where": "clustered z tests, {line[1]}, both numbers, selected",
     "metrics": {"{line[0]}": "{line[1]}/{line[2]}: {column}, selected"},
     "factor": {"p of sub_diff": 2.0, "p of abl_diff": 2.0}, "floor": 1e-15,
     "scale": {"sub_diff": 0.75, "abl_diff": 0.75},
     "columns": ("sub_diff", "abl_diff", "p of sub_diff", "p of abl_diff"), "lines": {
         ("agreement", "pretrained", "subject"): (
             (0.72, 0.011), (-0.484, 0.014), 0.0, 0.0),
         ("agreement", "pretrained", "verb"): (
             (0.481, 0.142), (-0.509, 0.062), 0.00069, 2.2e-16),
         ("agreement", "scratch", "subject"): (
             (0.507, 0.112), (-0.365, 0.095), 5.7e-06, 0.00012),
         ("agreement", "scratch", "verb"): (
             (0.443, 0.118), (-0.128, 0.098), 0.00019, 0.19),
         ("anaphora", "pretrained", "antecedent"): (
             (0.51, 0.136), (-0.508, 0.105), 0.00018, 1.4e-06),
         ("anaphora", "pretrained", "pronoun"): (
             (0.593, 0.093), (-0.353, 0.102), 1.8e-10, 0.00057),
         ("anaphora", "scratch", "antecedent"): (
             (0.352, 0.135), (-0.336, 0.08), 0.0091, 2.4e-05),
         ("anaphora", "scratch", "pronoun"): (
             (0.531, 0.088), (-0.206, 0.087), 1.4e-09, 0.018),
     }},
    # Over all runs of valid bases; the full pattern is sub_diff > 0 and abl_diff < 0, in 59 of 60
    # runs, 51 of 72, 42 of 48, 40 of 54 and 43 of 54.
    {"kind": "printed", "error": 0.0, "where": "all runs, {line}, selected",
     "metrics": {"means": "{line}: {column}, selected"},
     "columns": ("sub_diff", "abl_diff", "share with the full pattern"), "lines": {
         "pretrained": (0.581, -0.470, 0.983), "scratch": (0.458, -0.259, 0.708),
         "resnet50": (0.580, -0.141, 0.875), "simclr": (0.482, -0.145, 0.741),
         "wideresnet50": (0.611, -0.180, 0.796),
     }},
    # Of these runs those whose mask seed is not the one of the search, 0.
    {"kind": "printed", "error": 0.0, "where": "runs of mask seeds 1 and 2, {line}, selected",
     "metrics": {"means": "{line}: {column}, selected"},
     "columns": ("abl_diff, new mask seeds",), "lines": {
         "pretrained": (-0.471,), "scratch": (-0.239,), "resnet50": (-0.133,),
         "simclr": (-0.149,), "wideresnet50": (-0.186,),
     }},
)
# fmt: on

# Claims in words; `published.claims` describes the layout.
# (rule, subroutine)
LANGUAGE = (
    ("agreement_singular", "subject"),
    ("agreement_singular", "verb"),
    ("agreement_plural", "subject"),
    ("agreement_plural", "verb"),
    ("anaphora_singular", "antecedent"),
    ("anaphora_singular", "pronoun"),
    ("anaphora_plural", "antecedent"),
    ("anaphora_plural", "pronoun"),
)
VISION = (
    ("inside_contact", "inside"),
    ("inside_contact", "contact"),
    ("inside_number", "inside"),
    ("inside_number", "number"),
    ("number_contact", "number"),
    ("number_contact", "contact"),
)
CLAIMS = {
    "scratch_subnetworks": {
        "only": SELECTED,
        "sentence": "Subnetworks of BERT from scratch for one subroutine are worse at the other",
        "where": "trained bases, BERT-small from scratch, selected",
        "chains": [[("{0}", "scratch/{1}: sub_diff, selected"), 0]],
        "each": LANGUAGE,
    },
    "scratch_ablations": {
        "only": SELECTED,
        "sentence": "Without its subnetwork for the subject, the antecedent or the pronoun BERT "
        "from scratch loses this subroutine more than the other",
        "where": "trained bases, BERT-small from scratch, selected; subroutines whose z test over "
        "both numbers rejects zero (the verb has p 0.19)",
        "chains": [[0, ("{0}", "scratch/{1}: abl_diff, selected")]],
        "each": (
            ("agreement_singular", "subject"),
            ("agreement_plural", "subject"),
            ("anaphora_singular", "antecedent"),
            ("anaphora_singular", "pronoun"),
            ("anaphora_plural", "antecedent"),
            ("anaphora_plural", "pronoun"),
        ),
    },
    "pretrained_subnetworks": {
        "only": SELECTED,
        "sentence": "Subnetworks of pretrained BERT for one subroutine are worse at the other",
        "where": "trained bases, pretrained BERT-small, selected",
        "chains": [[("{0}", "pretrained/{1}: sub_diff, selected"), 0]],
        "each": LANGUAGE,
    },
    "pretrained_ablations": {
        "only": SELECTED,
        "sentence": "Without its subnetwork pretrained BERT loses a subroutine more than the other",
        "where": "trained bases, pretrained BERT-small, selected",
        "chains": [[0, ("{0}", "pretrained/{1}: abl_diff, selected")]],
        "each": LANGUAGE,
    },
    "resnet50_subnetworks": {
        "only": SELECTED,
        "sentence": "Subnetworks of ResNet-50 for one subroutine are worse at the other",
        "where": "trained bases, ResNet-50, selected",
        "chains": [[("{0}", "resnet50/{1}: sub_diff, selected"), 0]],
        "each": VISION,
    },
    "resnet50_ablations": {
        "only": SELECTED,
        "sentence": "Without its subnetwork ResNet-50 loses a subroutine more than the other: "
        "inside and number of the rule inside and number, contact of the rule number and contact",
        "where": "trained bases, ResNet-50, selected; cells whose z test rejects zero",
        "chains": [[0, ("{0}", "resnet50/{1}: abl_diff, selected")]],
        "each": (
            ("inside_number", "inside"),
            ("inside_number", "number"),
            ("number_contact", "contact"),
        ),
    },
    "wide_subnetworks": {
        "only": SELECTED,
        "sentence": "Subnetworks of Wide ResNet-50-2 for one subroutine are worse at the other",
        "where": "trained bases, Wide ResNet-50-2, selected",
        "chains": [[("wide", "{0}/{1}: sub_diff, selected"), 0]],
        "each": VISION,
    },
    "simclr_subnetworks": {
        "only": SELECTED,
        "sentence": "Subnetworks of SimCLR's ResNet-50 for one subroutine are worse at the other "
        "(all but contact of the rule inside and contact)",
        "where": "trained bases, ResNet-50 after SimCLR, selected; cells whose z test rejects zero",
        "chains": [[("simclr", "{0}/{1}: sub_diff, selected"), 0]],
        "each": (
            ("inside_contact", "inside"),
            ("inside_number", "inside"),
            ("inside_number", "number"),
            ("number_contact", "number"),
            ("number_contact", "contact"),
        ),
    },
    "pretraining_makes_modules": {
        "only": SELECTED,
        "sentence": "In all four cells of agreement removing a subnetwork hurts its subroutine "
        "more in a pretrained BERT than in one from scratch",
        "where": "trained bases, BERT-small from scratch and pretrained, selected: cells of "
        "agreement (the means over all runs have this order, both cells of anaphora singular "
        "do not)",
        "chains": [
            [
                ("{0}", "scratch/{1}: abl_diff, selected"),
                ("{0}", "pretrained/{1}: abl_diff, selected"),
            ]
        ],
        "each": (
            ("agreement_singular", "subject"),
            ("agreement_singular", "verb"),
            ("agreement_plural", "subject"),
            ("agreement_plural", "verb"),
        ),
    },
    "contact_is_a_module_number_is_not": {
        "only": SELECTED,
        "sentence": "In number and contact, removing the subnetwork for contact hurts contact, "
        "and more than the one for number hurts number",
        "where": "trained bases, ResNet-50, selected",
        "chains": [
            [
                ("number_contact", "resnet50/number: abl_diff, selected"),
                ("number_contact", "resnet50/contact: abl_diff, selected"),
            ],
            [0, ("number_contact", "resnet50/contact: abl_diff, selected")],
        ],
    },
    "number_is_no_module": {
        "only": SELECTED,
        "sentence": "In number and contact, removing the subnetwork for number makes no "
        "difference between number and contact (5 % of the range, which is ours)",
        "where": "trained bases, ResNet-50, selected",
        "equal": [[("number_contact", "resnet50/number: abl_diff, selected"), 0]],
        "tolerance": 0.0375,
    },
    "random_resnets_hold_no_modules": {
        "only": RANDOM,
        "sentence": "In a ResNet-50 with random weights removing a subnetwork hurts both "
        "subroutines alike (to 0.1, which is ours)",
        "where": "random weights, ResNet-50, selected",
        "equal": [[("{0}", "random_weights/{1}: abl_diff, selected"), 0]],
        "each": VISION,
        "tolerance": 0.1,
    },
    "random_wide_resnets_hold_no_modules": {
        "only": RANDOM,
        "sentence": "In a Wide ResNet-50-2 with random weights removing a subnetwork hurts both "
        "subroutines alike (to 0.1, which is ours)",
        "where": "random weights, Wide ResNet-50-2, selected",
        "equal": [[("{0}", "wideresnet50_random_weights/{1}: abl_diff, selected"), 0]],
        "each": VISION,
        "tolerance": 0.1,
    },
    "random_weights_hold_subnetworks": {
        "only": RANDOM,
        "sentence": "Masks that solve a subroutine exist in random BERTs too",
        "where": "random weights, BERT-small from scratch, selected",
        "chains": [[("{0}", "random_weights/{1}: sub target, selected"), 0.9]],
        "each": LANGUAGE,
    },
    "random_weights_hold_no_modules": {
        "only": RANDOM,
        "sentence": "Without these subnetworks random BERTs lose the subroutine at most 0.1 more "
        "than the other (0.1 is ours)",
        "where": "random weights, BERT-small from scratch, selected",
        "chains": [[("{0}", "random_weights/{1}: abl_diff, selected"), -0.1]],
        "each": LANGUAGE,
    },
    "structure_goes_with_generalization": {
        "kind": "finding",
        "sentence": "Over 30 small BERTs that differ in their seed, structure and accuracy on "
        "held-out combinations are correlated in the fixed configuration (interval of tau above "
        "zero), also beyond random removals",
        "computed": True,
        "where": "open question: structure and generalization",
        "chains": [
            [("generalization", "tau of {0} and held-out accuracy over bases, 2.5 %"), 0],
        ],
        "each": (("structure",), ("structure beyond random removals",)),
    },
    "structure_among_bases_that_solve_the_rule": {
        "kind": "finding",
        "sentence": "Among bases that solve the rule no correlation can be shown, with fixed or "
        "selected masks (intervals of tau include zero)",
        "computed": True,
        "where": "open question: structure and generalization, control",
        "chains": [
            [
                ("generalization", "tau of {0} that solve the rule, 97.5 %"),
                0,
                ("generalization", "tau of {0} that solve the rule, 2.5 %"),
            ],
        ],
        "each": (
            ("structure and held-out accuracy over bases",),
            ("structure beyond random removals and held-out accuracy over bases",),
            ("structure, selected and held-out accuracy over bases",),
        ),
    },
}

CAUSES = {
    "agreement_plural.scratch_verb_kept": (
        "unknown: our verb masks keep an eighth of the published share (plural; a quarter for "
        "singular) and solve their subroutine as well; subject masks keep 0.7 and 2.5 times it",
        "the share by epoch of mask training beside the release's search files of the same "
        "configuration, and masks of the release's bases",
    ),
}
