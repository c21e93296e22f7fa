"""Numbers in the READMEs' sentences, held against the record: a sentence is written from it anew.

A case is a README, a sentence with {} for its numbers, and where in the record each one stands:
"<file> <metric>", followed by " paper", " difference", " sd", " %" (the number in per cent),
" e-3" (in thousandths), " [i]" for one seed, " least", " median" or " most" of all seeds.
"""

import pathlib
import re

import numpy as np
import pytest

from cgjax import experiments, report
from cgjax.analysis import stats
from cgjax.core.workdir import read_json
from cgjax.experiments.across import answers

ROOT = pathlib.Path(__file__).parent.parent
SPRITES, SUPPORT, KERNELS, BUMPS, RESISTANCE, SUBNETWORKS = (
    ROOT / "cgjax" / "experiments" / folder / "README.md"
    for folder in ("sprites", "sprites/support", "kernels", "bumps", "resistance", "subnetworks")
)
FRONT = ROOT / "README.md"
VECTORS = ROOT / "cgjax" / "experiments" / "vectors" / "README.md"
ACROSS = ROOT / "cgjax" / "experiments" / "across" / "README.md"
PAPERS = "across/demo-default"
CONTROL_STARTS = ("1, biases 0", "2, biases 0", "3, biases 0", "2, biases 1", "3, biases 1")
REMEDY = "lam_entropy 0.1 + vec_variance 0.01"
DONUT, STRIPED = "donut_6_22, stripes x0", "donut_6_22, stripes x1"


VECTOR_MODELS = {
    "compositional": "a network per part", "mlp": "one network",
    "regularised": "one network, regularised",
}  # fmt: skip
AGREEMENT, CONTACT = ("subject", "verb"), ("contact", "number")
NUMBERS = ("singular", "plural")
SLOPES = ("slope", "predicted slope, kernel")
ADDITION = ("extrapolation", "asymmetric", "interpolation", "both")


def number(path: str) -> float:
    """The recorded number that a path names."""
    file, _, rest = path.partition(" ")
    entry = read_json(report.RECORD / f"{file}.json")
    if rest.startswith("background"):
        (model,) = entry["models"].values()
        return model["front_background"][int(rest.partition(" ")[2] or 0)]
    metric, _, which = rest.rpartition(" ")
    found = entry["metrics"]
    if rest in found:
        return found[rest]["ours"]
    found = found[metric.removesuffix(" own")]
    if which == "e-3":
        return 1000 * found["ours"]
    if which == "%":
        return 100 * found["ours"]
    if which == "sd" and metric.endswith(" own"):
        return found["sd"]
    if which == "difference":
        return found["ours"] - found["paper"]
    if which.startswith("["):
        return found["values"][int(which[1:-1])]
    if which in ("least", "median", "most"):
        return {"least": min, "median": np.median, "most": max}[which](found["values"])
    return found[{"paper": "paper", "sd": "paper_sd"}[which]]


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def rows(pattern: str, names, metric: str) -> list[str]:
    return [f"{pattern.format(name)} {metric}" for name in names]


SENTENCES = [
    (
        ACROSS,
        "support has tau {:+.2f} ({:+.2f} to {:+.2f}), masks {:+.2f} ({:+.2f} to {:+.2f}), tangent "
        "{:+.2f} ({:+.2f} to {:+.2f}), dependence {:+.2f} ({:+.2f} to {:+.2f}), factorization "
        "{:+.2f} ({:+.2f} to {:+.2f})",
        [
            f"{PAPERS} {theory}: tau{end}"
            for theory in ("support", "masks", "tangent", "dependence", "factorization")
            for end in ("", ", low", ", high")
        ],
    ),
    (
        ACROSS,
        "that of support and factorization ({:+.2f}, from {:+.2f} to {:+.2f})",
        [f"{PAPERS} support less factorization: tau{end}" for end in ("", ", low", ", high")],
    ),
    (
        ACROSS,
        "Dependence and masks order their {:.0f} common pairs most alike ({:+.2f}), then support "
        "and factorization theirs ({:.0f}, {:+.2f}); tangent and masks have {:.0f} in common, and "
        "hardly anything else ({:+.2f})",
        [
            f"{PAPERS} {both}: {what}"
            for both in ("dependence and masks", "support and factorization", "tangent and masks")
            for what in ("pairs", "tau")
        ],
    ),
    (
        ACROSS,
        "{:.3f}, {:.3f} and {:.2f} on CD-1, CD-3 and equivalence, and they are {:.3f}, {:.3f} and "
        "{:.2f}; of the rich ones {:.2f} on equivalence, which they solve ({:.4f}), and {:.2f} on "
        "CD-3, where they do worse ({:.2f})",
        [
            *(f"{PAPERS} kernels_lazy_{task}: {column}" for column in ("tangent", "error")
              for task in ("cd_1", "cd_3", "te_2_2")),
            *(f"{PAPERS} kernels_rich_{task}: {column}" for task in ("te_2_2", "cd_3")
              for column in ("tangent", "error")),
        ],
    ),
    (
        ACROSS,
        "(error {:.4f}), and without it they do not ({:.2f})",
        [f"{PAPERS} bumps_product{word}: error" for word in ("_flat", "")],
    ),
    (
        ACROSS,
        "the first update of the plain network asks more of X_2 in the control ({:.2f}) than in A "
        "({:.2f})",
        [f"{PAPERS} plane_plain_{setting}: dependence" for setting in ("control", "A")],
    ),
    (ACROSS, "err {:.2f} times as often as chance", [f"{PAPERS} plane_towers_A: error"]),
    (
        SUPPORT,
        "at {:.0f} % on `diagonal`, at {:.0f} % on `diagonal_narrow` and at {:.0f} % on "
        "`orthogonal_star`, which never shows what lies behind the front sprite's one place "
        "({:.0f} pixels)",
        [
            *rows("support/table-default {}/step_back",
                  ("diagonal", "diagonal_narrow", "orthogonal_star"), "%"),
            "support/table-default orthogonal_star/step_back failing pixels",
        ],
    ),
    (
        SUPPORT,
        "At delta 0.07, {:.0f} % of 64 values pass with 48 partners and {:.0f} % with 512; at 0.03 "
        "{:.0f} and {:.0f} %, at 0.2 {:.0f} and {:.0f} %",
        [
            f"support/partners-default delta {delta}, {n} partners %"
            for delta in (0.07, 0.03, 0.2)
            for n in (48, 512)
        ],
    ),
    (
        SUPPORT,
        "over the {:.0f} supports of the record (planes, diagonals of eight widths, six gaps, "
        "everything) the rank correlation with R2 on all combinations is {:.2f} for the share of "
        "identified values (tau-b, 95 % [{:.2f}, {:.2f}]), {:.2f} for the share of identified "
        "pixels ([{:.2f}, {:.2f}]), {:.2f} for the median singular value of the mean Jacobian "
        "([{:.2f}, {:.2f}])",
        [
            "support/predict-default supports",
            *(
                f"support/predict-default tau-b({name}, r2_all){end}"
                for name in ("values", "pixels", "sigma")
                for end in ("", ", 2.5 %", ", 97.5 %")
            ),
        ],
    ),
    (
        SUPPORT,
        "the length of training alone has {:.2f} ([{:.2f}, {:.2f}])",
        [
            f"support/predict-default tau-b(steps, r2_all){end}"
            for end in ("", ", 2.5 %", ", 97.5 %")
        ],
    ),
    (
        SUPPORT,
        "{:.0f}, {:.0f} and {:.0f} planes for two, three and four sprites",
        [f"support/design-default {n} slots planes" for n in (2, 3, 4)],
    ),
    (
        SUPPORT,
        "The relaxed condition holds at {:.0f} and {:.0f} % of them for the back sprite on "
        "`random` and `orthogonal`, for the front sprite at {:.0f} and {:.0f} %",
        [
            f"support/relaxed-default alpha, {slot}, {name}: relaxed %"
            for slot in ("back", "front")
            for name in ("random", "orthogonal")
        ],
    ),
    (
        SUPPORT,
        "With opacities beyond the clip's corners 0 and 1 it holds at {:.0f} % on `orthogonal`",
        ["support/relaxed-default alpha saturated, front, orthogonal: relaxed %"],
    ),
    (
        SUPPORT,
        "they are at least 1 at {:.0f} and {:.0f} % of a sprite's pixels and at most 0 at {:.1f} "
        "and {:.1f} % of the others; the relaxed condition at the trained front components fails "
        "at {:.1f} and {:.1f} % of all pixels and {:.1f} and {:.1f} % of a sprite's own",
        [
            f"support/opacity-default seed {seed}: {what} %"
            for what in ("sprite pixels with alpha >= 1", "other pixels with alpha <= 0",
                         "front, pixels that fail", "front, sprite pixels that fail")
            for seed in (1, 2)
        ],
    ),
    (
        SUPPORT,
        "the fit does not (root mean square {:.2f} of the images' deviation on the training "
        "planes, worst of 64 scenes {:.2f}, 0.1 asked for), nor do derivatives ({:.2f}, worst "
        "{:.2f})",
        [
            f"support/certificate-default {name}{worst}"
            for name in ("fit: the model fits f on P", "derivatives: the model fits df/dz on P")
            for worst in ("", ", worst")
        ],
    ),
    (
        KERNELS,
        "solved by {:.0f} of the grid's 1,728 kernels under a hard margin, CD-1 and CD-2 by "
        "{:.0f}, CD-1 alone by {:.0f}, none by {:.0f}",
        [
            f"kernels/phase-default {name}"
            for name in ("all three solved", "CD-2 and CD-1 only", "CD-1 only", "none")
        ],
    ),
    (
        KERNELS,
        "disagree on CD-3 for {:.1f} % of kernels",
        ["kernels/phase-default CD-3: objectives disagree %"],
    ),
    (
        KERNELS,
        "17 pairs with one anchor and 18 dispersed ones have slope {:.2f} and {:.2f} and test MSE "
        "{:.1f} and {:.1f}; 18 pairs chosen greedily by someone who knows the values {:.2f} and "
        "{:.2f}; 9 pairs of equal values {:.2f} and {:.2f}",
        [
            f"kernels/design-default S=0.3, {name}"
            for name in ("anchors, 17 pairs: slope", "dispersed, 18 pairs: slope",
                         "anchors, 17 pairs: test MSE", "dispersed, 18 pairs: test MSE",
                         "chosen, 18 pairs: slope", "chosen, 18 pairs: test MSE",
                         "like values, 9 pairs: slope", "like values, 9 pairs: test MSE")
        ],
    ),
    (
        KERNELS,
        "Not knowing the values, the best of 18 pairs has {:.2f} times the error of dispersed ones",
        ["kernels/design-default S=0.3, values unknown, 18 pairs: error over dispersed"],
    ),
    (
        KERNELS,
        "lazy {:.3f} ({:.3f}) extrapolation, {:.3f} ({:.3f}) asymmetric, {:.3f} ({:.3f}) "
        "interpolation, {:.3f} ({:.3f}) both; rich {:.3f} ({:.3f}), {:.3f} ({:.3f}), {:.3f} "
        "({:.3f}), {:.3f} ({:.3f})",
        [
            f"kernels/demo-default addition/{name}, sigma {scale}: slope{which}"
            for scale in ("1", "1e-06")
            for name in ADDITION
            for which in ("", " paper")
        ],
    ),
    (
        KERNELS,
        "accuracy on new pairs {:.2f} rich, {:.2f} lazy ({:.2f} and {:.3f})",
        [
            f"kernels/demo-default equivalence/te_2_2, sigma {scale}: accuracy{which}"
            for which in ("", " paper")
            for scale in ("1e-06", "1")
        ],
    ),
    (
        KERNELS,
        "with squared error lazy networks solve CD-3 (accuracy {:.0f}, margin {:.2f}; closed form "
        "with their initial features {:.2f}), with the logistic loss they take the shortcut "
        "(accuracy {:.0f}, margin {:.2f} of the least training margin; closed form {:.2f})",
        [
            f"kernels/cd_rich-default {loss}/cd_3, sigma 1: {name}"
            for loss in ("mse", "logistic")
            for name in ("accuracy", "relative margin", "predicted margin")
        ],
    ),
    (
        KERNELS,
        "slope {:.2f} and {:.2f} (extrapolation, distance 0 and 20). The closed form with the "
        "salience of layer 11 before training says {:.2f} and {:.2f}. A kernel machine on the "
        "network's initial tangent kernel, four images per combination, has {:.2f} and {:.2f}",
        [
            f"kernels/addition_mnist-fast-ext_d{d} extrapolation, d={d}: {name}"
            for name in ("slope", "predicted slope", "NTK readout slope before")
            for d in (0, 20)
        ],
    ),
    (
        KERNELS,
        "gives {:.2f} and {:.2f} (extrapolation, both) where the ViT has {:.2f} and {:.2f}, and "
        "{:.2f} and {:.2f} where the ResNet has {:.2f} and {:.2f}",
        [
            f"kernels/addition_cifar_{net}-fast-{label} {name}, d=0: {metric}"
            for net in ("vit", "resnet")
            for metric in ("predicted slope", "slope")
            for label, name in (("ext", "extrapolation"), ("both", "both"))
        ],
    ),
    (
        KERNELS,
        "on CD-3 ConvNets have {:.2f} on new combinations at distance 0 and {:.2f} at distance 20",
        [f"kernels/cd_mnist-fast-cd3_d{d} cd_3, d={d}: comp accuracy" for d in (0, 20)],
    ),
    (
        KERNELS,
        "while CD-1 and CD-2 rise ({:.2f} and {:.2f}, then {:.2f} and {:.2f})",
        [
            f"kernels/cd_mnist-fast-cd{i}_d{d} cd_{i}, d={d}: comp accuracy"
            for d in (0, 20)
            for i in (1, 2)
        ],
    ),
    (
        KERNELS,
        "{:.2f} for ConvNets on CD-3 at distance 0, where the mean is {:.2f}",
        [
            f"kernels/cd_mnist-fast-cd3_d0 cd_3, d=0: {name}"
            for name in ("additivity", "mean additivity")
        ],
    ),
    (
        KERNELS,
        "ResNet and ViT have {:.2f} and {:.2f}.",
        [
            f"kernels/cd_cifar_{net}-fast-cd3 cd_3, d=0: comp accuracy"
            for net in ("resnet", "vit")
        ],
    ),
    (
        KERNELS,
        "(ViT on CD-1: {:.3f}, paper {:.3f}; ConvNets on CD-3 at distance 0: {:.3f}, paper {:.3f})",
        [
            f"kernels/{row} {name}, d=0: mean additivity{which}"
            for row, name in (("cd_cifar_vit-fast-cd1", "cd_1"), ("cd_mnist-fast-cd3_d0", "cd_3"))
            for which in ("", " paper")
        ],
    ),
    (
        BUMPS,
        "the MLP has OOD nMSE {:.2f} on one-hot codes and {:.2f} on bump codes, the CNN of 64 "
        "channels {:.2f}, {:.2f} and on the raw ramp {:.2f}",
        [
            f"bumps/B1-paper {part}/ood nmse"
            for part in ("mlp_onehot", "mlp_bump", "cnn_onehot", "cnn_bump", "cnn_ramp")
        ],
    ),
    (BUMPS, "never learns ID ({:.2f}) in 8,000 steps", ["bumps/B1-paper mlp_ramp/id nmse"]),
    (
        BUMPS,
        "OOD MSE {:.4f} and 1 - SSIM {:.3f}, the paper's {:.4f} and {:.3f}; ID MSE {:.1e} "
        "({:.1e}). {:.0f} % of the spots",
        [
            *(
                f"bumps/long-paper ood {name}, between pixels{which}"
                for which in ("", " paper")
                for name in ("mse", "ssim error")
            ),
            *(f"bumps/long-paper id mse, between pixels{which}" for which in ("", " paper")),
            "bumps/long-paper ood position accuracy %",
        ],
    ),
    (
        BUMPS,
        "OOD MSE {:.1e} (paper {:.1e}; single seeds from {:.1e} to {:.1e}), ID {:.1e} ({:.1e}). "
        "Without penalty OOD {:.3f} (single seeds {:.3f} to {:.3f}; read off the paper {:.3f})",
        [
            *(f"bumps/B8-paper {REMEDY}: ood mse{w}" for w in ("", " paper", " least", " most")),
            *(f"bumps/B8-paper {REMEDY}: id mse{w}" for w in ("", " paper")),
            *(f"bumps/B8-paper no penalty: ood mse{w}" for w in ("", " least", " most", " paper")),
        ],
    ),
    (
        BUMPS,
        "OOD MSE {:.1e} with 4 layers (paper {:.1e}), {:.1e} with 2",
        [
            f"bumps/B11-paper {name}"
            for name in ("pixel_4/ood mse", "pixel_4/ood mse paper", "pixel_2/ood mse")
        ],
    ),
    (
        BUMPS,
        "from {:.0f} % to {:.0f} %, and the nMSE from {:.2f} only to {:.2f}, because spots are too "
        "bright (peak {:.2f}). On a canvas with stripes {:.0f} % are placed (nMSE {:.2f}); cropped "
        "bumps, as in the released script, show no stripe and do nothing ({:.0f} %)",
        [
            *(f"bumps/B9-paper null_stripe/stripes x{c}: ood position accuracy %" for c in (0, 1)),
            *(f"bumps/B9-paper null_stripe/stripes x{c}: ood nmse" for c in (0, 1)),
            "bumps/B9-paper null_stripe/stripes x1: ood peak height",
            "bumps/B9-paper canvas_stripe/ood position accuracy %",
            "bumps/B9-paper canvas_stripe/ood nmse",
            "bumps/B9-paper canvas_crop/ood position accuracy %",
        ],
    ),
    (
        BUMPS,
        "no penalty {:.1f}, entropy (low rank) {:.1f}, hard rank one {:.1f}, nuclear norm {:.1f} "
        "at the weight that still fits ID; variance {:.3f}, null-axis variance {:.4f}. The paper's "
        "sum of entropy and variance has {:.2f}. In product fields the null-axis variance gives "
        "{:.1e} and {:.1e} from either initial scale, nuclear norm {:.2f}",
        [
            f"bumps/ablation-paper {name}{': ' if ' ' in name else '/'}ood nmse"
            for name in (
                "embed/no penalty", "embed/lam_entropy 0.1", "rank_1",
                "embed_nuclear/nuclear 1e-06",
                "embed/vec_variance 0.001", "embed/null_axis 0.001", f"embed/{REMEDY}",
                "product/null_axis 0.001, scale 0.1", "product/null_axis 0.001, scale 0.3",
                "product/nuclear 3e-07, scale 0.1",
            )
        ],
    ),
    (
        BUMPS,
        "in the hole {:.0f} % of the one-hot MLP's variance is a sum a(x) + b(y), the binary "
        "kernel explains {:.2f} of it (best k2 {:.2f}). Its own tangent kernel at initialisation "
        "does not: R2 {:.2f} (mean over pixels), and {:.2f} by conjugate gradients, which "
        "{:.0f} iterations leave at a residual of {:.2f}",
        [
            f"bumps/B5-paper mlp/{name}"
            for name in (
                "additive R2 %", "binary kernel R2", "binary kernel R2, best k2",
                "tangent kernel R2, mean over pixels", "tangent kernel R2, all outputs",
                "tangent kernel iterations", "tangent kernel residual",
            )
        ],
    ),
    (BUMPS, "{:.0f} % is a sum, and the binary kernel", ["bumps/B5-paper cnn/additive R2 %"]),
    (
        BUMPS,
        "On the donut without any remedy OOD nMSE is {:.2f} for the MLP, {:.2f} for the CNN, "
        "{:.2f} for the transformer, {:.2f} for the pixel-token MLP, {:.2f} for the embedding "
        "network and {:.2f} for product fields",
        [
            f"bumps/table-paper {part}: ood nmse"
            for part in (
                *(f"{net}/{DONUT}" for net in ("mlp", "cnn", "transformer", "pixel_mlp")),
                *(f"{net}/{DONUT}, no penalty" for net in ("embed", "product")),
            )
        ],
    ),
    (
        BUMPS,
        "Stripes bring the CNN to {:.2f} and the transformer to {:.2f}, leave the MLP at {:.2f} "
        "and raise the pixel-token MLP to {:.2f}, though it places {:.1f} % of the spots. "
        "Penalties bring the embedding network to {:.3f} and product fields to {:.3f}; with "
        "stripes as well they have {:.3f} (ID not learned: {:.3f}) and {:.3f}",
        [
            *(f"bumps/table-paper {net}/{STRIPED}: ood nmse"
              for net in ("cnn", "transformer", "mlp", "pixel_mlp")),
            f"bumps/table-paper pixel_mlp/{STRIPED}: ood position accuracy %",
            f"bumps/table-paper embed/{DONUT}, {REMEDY}: ood nmse",
            f"bumps/table-paper product/{DONUT}, null_axis 0.001: ood nmse",
            f"bumps/table-paper embed/{STRIPED}, {REMEDY}: ood nmse",
            f"bumps/table-paper embed/{STRIPED}, {REMEDY}: id nmse",
            f"bumps/table-paper product/{STRIPED}, null_axis 0.001: ood nmse",
        ],
    ),
    (
        BUMPS,
        "Kendall's tau-b is {:.2f} with F, {:.2f} with F_K, {:.2f} with probes, {:.2f} with units "
        "of one factor, {:.2f} with modularity",
        [
            f"bumps/table-paper compositionality (OOD R2) and {word}: tau-b"
            for word in (
                "factorization (F)", "factorization (F_K)",
                "disentanglement (probe R2 in the hole)", "disentanglement (units of one factor)",
                "modularity (share without interaction)",
            )
        ],
    ),
    (
        BUMPS,
        "grows like N to the {:.1f} ({:.1f} to {:.1f}) for the smaller hole, and to the {:.1f} "
        "({:.1f} to {:.1f}) for the larger, where {:.0f} of 18 points never get there",
        [
            f"bumps/needed-paper hole {hole}, no stripes: exponent{which}"
            for hole in (1, 2) for which in ("", ", 2.5 %", ", 97.5 %")
        ] + ["bumps/needed-paper hole 2, no stripes: n censored"],
    ),
    (
        BUMPS,
        "With stripes two bumps are enough at {:.0f} of 18 and {:.0f} of 18 points, so the few "
        "others (powers {:.1f}, from {:.1f} to {:.1f}, and {:.1f}, from {:.1f} to {:.1f})",
        [f"bumps/needed-paper hole {hole}, stripes: n enough" for hole in (1, 2)] + [
            f"bumps/needed-paper hole {hole}, stripes: exponent{which}"
            for hole in (1, 2) for which in ("", ", 2.5 %", ", 97.5 %")
        ],
    ),
    (
        BUMPS,
        "holds half from {:.0f} %, {:.0f} % and {:.0f} % on. Single seeds differ widely "
        "({:.2f} to {:.2f} at the middle width)",
        [
            *(f"bumps/percolation-paper {width}/share at which half hang together %"
              for width in ("narrow", "middle", "wide")),
            *(f"bumps/percolation-paper middle/share 0.02: ood position accuracy {which}"
              for which in ("least", "most")),
        ],
    ),
    (
        BUMPS,
        "held out at all widths, OOD nMSE {:.2f} (MLP), {:.2f} (CNN), {:.2f} (pixel-token MLP); "
        "held out at the larger two widths only, {:.2f}, {:.2f} and {:.2f}",
        [
            f"bumps/three-paper {net}/{region}, stripes x0: ood nmse"
            for region in ("donut_6_22", "wide_6_22") for net in ("mlp", "cnn", "pixel_mlp")
        ],
    ),
    (
        BUMPS,
        "F of the last hidden layer is {:.2f}, {:.2f} and {:.2f} for MLPs of 3, 5 and 7 layers",
        [f"bumps/B4-paper depth_{n}/F hole, last hidden layer" for n in (3, 5, 7)],
    ),
    (
        BUMPS,
        "in the gap nMSE is {:.2f} for the paper's CNN ({:.3f} outside), {:.2f} for the "
        "pixel-token MLP, {:.1e} for a network that is equivariant by construction. What is "
        "painted there is no cross-fade of the gap's edges: R2 {:.2f} and {:.2f}",
        [
            f"bumps/B7-paper {name}"
            for name in ("cnn/gap nmse", "cnn/outside nmse", "pixel_mlp/gap nmse",
                         "equivariant/gap nmse", "cnn/cross-fade r2", "pixel_mlp/cross-fade r2")
        ],
    ),
    (
        BUMPS,
        "read {:.0f} % (bump code) and {:.0f} % (ramp) of those in the hole",
        [f"bumps/B12-paper {code}/ood position accuracy %" for code in ("bump", "ramp")],
    ),
    (
        SUBNETWORKS,
        "by {:+.2f} (subject) and {:+.2f} (verb), that of the rest by {:+.2f} and {:+.2f}. In the "
        "small BERT masks hardly matter to it: {:+.2f} and {:+.2f} for subnetworks, {:+.2f} and "
        "{:+.2f} for as many weights drawn anywhere",
        [
            f"subnetworks/tangent-default {part}/{name}: alignment with own less other, {kernel}"
            for part, kernel in (("modular", "subnetwork"), ("modular", "rest"),
                                 ("bert", "subnetwork"), ("bert", "random"))
            for name in ("subject", "verb")
        ],
    ),
    (
        RESISTANCE,
        "(`mnist`, 20 seeds, 200 steps): train {:.3f}, test {:.3f} in A, {:.3f} and {:.3f} in B; "
        "gap {:.3f} against {:.3f}, S_2 {:.3f} against {:.3f}, interventional information {:.3f} "
        "against {:.3f} nats. With the other network of the text (`three_conv`): train {:.3f}, "
        "test {:.3f} in A, {:.3f} and {:.3f} in B; gap {:.3f} against {:.3f}",
        [
            f"resistance/mnist-paper{label} {setting}: {name}"
            for label, names in (
                ("", (("train accuracy", "test accuracy"), ("gap",), ("S_2",),
                      ("interventional information",))),
                ("-three_conv", (("train accuracy", "test accuracy"), ("gap",))),
            )
            for several in names for setting in "AB" for name in several
        ],
    ),
    (
        RESISTANCE,
        "sentences of the whole test right in A {:.4f}, in B {:.4f} under both readings; gap "
        "{:.3f} (sd over seeds 0.021) against {:.3f}",
        [
            "resistance/scan-paper A: test accuracy, whole set",
            "resistance/scan-paper B: test accuracy, whole set",
            "resistance/scan-paper A: gap", "resistance/scan-paper B: gap",
        ],
    ),
    (
        RESISTANCE,
        "from scale 2 SGD's networks have test accuracy {:.3f}, walks {:.3f}, guesses {:.3f}; from "
        "scale 3 {:.3f}, {:.3f} and {:.3f}. From starts with biases guesses are ahead, {:.3f} "
        "against SGD's {:.3f} (scale 2) and {:.3f} against {:.3f} (scale 3)",
        [
            f"resistance/control-paper {who}, scale {scale}, biases {biases}: test accuracy"
            for who, scale, biases in (
                ("sgd", 2, 0), ("metropolis", 2, 0), ("guess", 2, 0), ("sgd", 3, 0),
                ("metropolis", 3, 0), ("guess", 3, 0), ("guess", 2, 1), ("sgd", 2, 1),
                ("guess", 3, 1), ("sgd", 3, 1),
            )
        ],
    ),
    (
        FRONT,
        "compositional {:.3f} (five seeds, median; least {:.3f}; paper {:.3f}), monolithic {:.3f} "
        "(one seed; paper {:.3f})",
        [
            *(
                f"sprites/orthogonal_compositional-paper r2_all {which}"
                for which in ("median", "least", "paper")
            ),
            *(f"sprites/orthogonal_monolithic-paper r2_all{which}" for which in ("", " paper")),
        ],
    ),
    (
        FRONT,
        "3 seeds: slope of addition {:.3f} ({:.3f}); accuracy on new contexts {:.3f} ({:.3f}), and "
        "{:.3f} ({:.3f}) where the shortcut misleads",
        [
            f"kernels/{name}{who}"
            for name in (
                "addition_mnist-fast-ext_d0 extrapolation, d=0: slope",
                "cd_mnist-fast-cd1_d20 cd_1, d=20: comp accuracy",
                "cd_mnist-fast-cd3_d20 cd_3, d=20: comp accuracy",
            )
            for who in ("", " paper")
        ],
    ),
    (
        FRONT,
        "never shown {:.4f} ({:.4f}), with regularised embeddings {:.5f} ({:.5f}); 5 seeds",
        [
            f"bumps/B8-paper {name}: ood mse{who}"
            for name in ("no penalty", REMEDY)
            for who in ("", " paper")
        ],
    ),
    (
        FRONT,
        "gap of training and test {:.3f} with a redundant digit, {:.3f} without (20 seeds); SCAN's "
        '"jump" {:.4f} and {:.4f} (5 seeds)',
        [
            "resistance/mnist-paper A: gap", "resistance/mnist-paper B: gap",
            "resistance/scan-paper A: test accuracy, whole set",
            "resistance/scan-paper B: test accuracy, whole set",
        ],
    ),
    (
        SUBNETWORKS,
        "for the pronoun: sub_diff {:.3f} (paper {:.3f}), abl_diff {:+.3f} ({:.3f}): what is left "
        "solves the *pronoun* too; for the antecedent both are larger than published ({:.3f} and "
        "{:.3f}, {:+.3f} and {:+.3f}). BERT-small from scratch did not learn the rule here: bases "
        "of {:.3f}, {:.3f} and {:.3f} solve the pronoun alone (the paper's have {:.3f}",
        [
            *(
                f"subnetworks/anaphora_singular-fast-random_weights random_weights/{name}{who}"
                for which in ("pronoun", "antecedent")
                for name in (f"{which}: sub_diff", f"{which}: abl_diff")
                for who in ("", " paper")
            ),
            *(
                f"subnetworks/anaphora_singular-fast-scratch scratch/base: test accuracy {who}"
                for who in ("[0]", "[1]", "[2]", "paper")
            ),
        ],
    ),
    *(
        (
            SUBNETWORKS,
            sentence,
            [f"subnetworks/objectives-default {objective}/{which}: {name}"
             for objective in ("target", "target_and_chance_on_other")],
        )
        for which in AGREEMENT
        for name, sentence in (
            ("sub_diff", "{:+.3f} and {:+.3f}"),
            ("abl_diff", "{:.3f} and {:.3f}"),
        )
    ),
    (
        SUBNETWORKS,
        "abl_diff is {:.3f} for the subject and {:.3f} for the verb with the configuration fixed "
        "beforehand, {:.3f} and {:.3f} with the selected one, and its median over all valid "
        "configurations {:.3f} and {:.3f}",
        [
            f"subnetworks/search-fast-one_mask {which}: abl_diff{choice}"
            for choice in ("", ", selected", ", 50 % of valid configurations")
            for which in AGREEMENT
        ],
    ),
    (
        SUBNETWORKS,
        "({:.2f} and {:.2f} for contact; the paper's {:.2f} and {:.2f})",
        [
            f"subnetworks/number_contact-fast-10000_problems resnet50/contact: abl {test}{who}"
            for who in ("", " paper")
            for test in ("target", "other")
        ],
    ),
    (
        SUBNETWORKS,
        "of `simclr` {:.3f} and {:.3f}",
        [
            f"subnetworks/simclr-default inside_contact/base: test accuracy [{i}]"
            for i in (0, 1)
        ],
    ),
    (
        SUBNETWORKS,
        "two bases at {:.2f} and {:.2f}, marked",
        [f"subnetworks/number_contact-default resnet50/base: test accuracy [{i}]" for i in (0, 1)],
    ),
    (
        BUMPS,
        "OOD MSE is {:.1e}, {:.1e}, {:.1e}, {:.1e}, {:.1e} and {:.1e} with bumps of the code 1, 3, "
        "5, 7, 9 and 11 times as wide; the paper has {:.1e}, {:.1e}, {:.1e}, {:.1e}, {:.1e} and "
        "{:.1e}.",
        [
            f"bumps/B3-paper width_{width}/ood mse{who}"
            for who in ("", " paper")
            for width in (1, 3, 5, 7, 9, 11)
        ],
    ),
    (
        SUBNETWORKS,
        "disjoint, the verb's keeps {:.2f}, the subject's {:.2f} and solves",
        [f"subnetworks/joint-default {which}: kept, disjoint" for which in AGREEMENT[::-1]],
    ),
    (
        SUBNETWORKS,
        "subject sub_diff {:+.3f}, abl_diff {:.3f} (removals of the same size -0.024), the full "
        "pattern in 3 of 3; verb {:+.3f}, {:.3f} (+0.005), 2 of 3",
        [
            f"subnetworks/agreement_plural-default scratch/{which}: {name}"
            for which in AGREEMENT
            for name in ("sub_diff", "abl_diff")
        ],
    ),
    (
        SUBNETWORKS,
        "(test accuracy {:.3f} and {:.3f} for number and contact, {:.3f} and {:.3f}, which",
        [
            f"subnetworks/{row}-default resnet50/base: test accuracy [{i}]"
            for row in ("number_contact", "inside_contact")
            for i in (0, 1)
        ],
    ),
    (
        SUBNETWORKS,
        "antecedent {:+.3f}, {:.3f} (-0.023), pronoun {:+.3f}, {:.3f} (-0.177)",
        [
            f"subnetworks/anaphora_plural-default scratch/{which}: {name}"
            for which in ("antecedent", "pronoun")
            for name in ("sub_diff", "abl_diff")
        ],
    ),
    (
        SUBNETWORKS,
        "{:.3f} and {:.3f} for inside and number; a small ViT {:.3f} and {:.3f} for inside",
        [
            f"subnetworks/{row}/base: test accuracy [{i}]"
            for row in ("inside_number-default resnet50", "vit-default inside_contact")
            for i in (0, 1)
        ],
    ),
    (
        FRONT,
        "R2 of a network per part {:.3f} ({:.2f}), {:.3f} ({:.2f}) and {:.3f} ({:.2f})",
        [
            f"vectors/compositional_{name}-paper r2_all{who}"
            for name in ("random", "diagonal", "orthogonal")
            for who in ("", " paper")
        ],
    ),
    *(
        (
            VECTORS,
            f"{word} | {name} | {{:.3f}} ± {{:.3f}} | {{:.2f}}",
            [f"vectors/{model}_{name}-paper r2_all{w}" for w in ("", " own sd", " paper")],
        )
        for model, word in VECTOR_MODELS.items()
        for name in ("random", "diagonal", "orthogonal")
        if (model, name) != ("mlp", "orthogonal")  # whose published number is an interval
    ),
    (
        RESISTANCE,
        "Gaps of A and B: {:.3f} and {:.3f} (appendix), {:.3f} and {:.3f} (its one-vs-rest hinge), "
        "{:.3f} and {:.3f} (three convolutions), {:.3f} and {:.3f} (its one-vs-rest hinge)",
        [
            f"resistance/architectures-paper {net}_{loss}/{setting}: gap"
            for net in ("appendix", "three_conv")
            for loss in ("categorical_hinge", "one_vs_rest_hinge")
            for setting in "AB"
        ],
    ),
    (
        VECTORS,
        "one network | orthogonal | {:.3f} ± {:.3f} | 0.40 to 0.55",
        [f"vectors/mlp_orthogonal-paper r2_all{w}" for w in ("", " own sd")],
    ),
    (
        VECTORS,
        "({:.3f} without, {:.2f} with it); in ours it does not ({:.3f} and {:.3f})",
        [
            f"vectors/{model}_orthogonal-paper r2_all{who}"
            for who in (" paper", "")
            for model in ("mlp", "regularised")
        ],
    ),
    (
        VECTORS,
        "from {:.1f} to {:.1f} down to {:.2f} to {:.2f} and costs",
        [
            f"vectors/{row}-paper block_contrast"
            for row in (
                "mlp_diagonal", "mlp_orthogonal", "regularised_random", "regularised_diagonal",
            )
        ],
    ),
    (
        FRONT,
        "of one network for all {:.3f} ({:.2f}), {:.3f} ({:.2f}) and {:.3f} ({:.3f}), 20 seeds",
        [
            f"vectors/mlp_{name}-paper r2_all{who}"
            for name in ("random", "diagonal", "orthogonal")
            for who in ("", " paper")
        ],
    ),
    (
        SUBNETWORKS,
        "two of three bases count ({:.3f} and {:.3f}): antecedent sub_diff {:+.3f}, abl_diff "
        "{:+.3f}, removals of the same size -0.102; pronoun {:+.3f}, {:+.3f} and",
        [
            f"subnetworks/anaphora_singular-fast-scratch_minilm scratch_minilm/{name}"
            for name in (
                "base: test accuracy [0]", "base: test accuracy [2]", "antecedent: sub_diff",
                "antecedent: abl_diff", "pronoun: sub_diff", "pronoun: abl_diff",
            )
        ],
    ),
    (
        RESISTANCE,
        "8 seeds on the H200: gap {:.3f} against {:.3f}, S_2 {:.3f} against {:.3f}.",
        [
            f"resistance/demo-paper-mnist digits/{setting}: {score}"
            for score in ("gap", "S_2")
            for setting in "AB"
        ],
    ),
    (
        RESISTANCE,
        "SGD {:.3f}, {:.3f}, {:.3f}, {:.3f}, walks {:.3f}, {:.3f}, {:.3f}, {:.3f}. Of 16",
        [
            f"resistance/capacity-paper {who}, scale 2, width {width}: test accuracy"
            for who in ("sgd", "metropolis")
            for width in (4, 8, 16, 32)
        ],
    ),
    (
        RESISTANCE,
        "train {:.3f}, test {:.3f} in A, {:.3f} and {:.3f} in B; gap {:.3f} against {:.3f}, S_2 "
        "{:.3f} against {:.3f}, interventional information {:.3f} against {:.3f} nats",
        [
            *(
                f"resistance/demo-default digits/{setting}: {score} accuracy"
                for setting in "AB"
                for score in ("train", "test")
            ),
            *(
                f"resistance/demo-default digits/{setting}: {score}"
                for score in ("gap", "S_2", "interventional information")
                for setting in "AB"
            ),
        ],
    ),
    (
        RESISTANCE,
        "test {:.3f} in A, {:.3f} in the control (0.0017); training is ahead in A after 1 and 2 "
        "steps, {:.3f} against {:.3f} (0.012); S_2 {:.3f} against {:.3f} (0.042): these match. "
        "Interventional information {:.4f} against {:.4f} nats",
        [
            f"resistance/plane-default {setting}: {score}"
            for score in ("test accuracy", "early train accuracy", "S_2",
                          "interventional information")
            for setting in ("A", "control")
        ],
    ),
    (
        RESISTANCE,
        "A's test falls to {:.3f} (control {:.3f})",
        [f"resistance/heads-default plane/{s}: test accuracy" for s in ("A", "control")],
    ),
    (
        RESISTANCE,
        "changes D_2 by {:.4f} in the mean over training, so \"a step raises D_2\" does not match "
        "(0.048); it lowers D_2 less than a step on re-drawn X_2 does, {:.4f}",
        [
            f"resistance/one_step-default plane/A: mean one step on {where}: D_2"
            for where in ("A", "re-drawn")
        ],
    ),
    (
        RESISTANCE,
        "the start is {:.2f} from A's end and {:.2f} from the control's",
        [f"resistance/landscape-default distance from start to {s}" for s in ("A", "control")],
    ),
    (
        RESISTANCE,
        "X_2 alone carries {:.2f} of the variance, in the control {:.2f}; of the kernel itself "
        "{:.2f} and {:.2f}",
        [
            f"resistance/tangent-default {s}: {what}: share of X_2"
            for what in ("first update", "kernel")
            for s in ("A", "control")
        ],
    ),
    (
        RESISTANCE,
        "train {:.3f}, test {:.3f} in A, {:.3f} and {:.3f} in B; S_2 {:.3f} against {:.3f}; when "
        "X_2 is drawn anew the answer tells {:.3f} and {:.3f} nats of Y_2",
        [
            *(
                f"resistance/mnist-default {setting}: {score} accuracy"
                for setting in "AB"
                for score in ("train", "test")
            ),
            *(
                f"resistance/mnist-default {setting}: {score}"
                for score in ("S_2", "interventional information")
                for setting in "AB"
            ),
        ],
    ),
    (
        RESISTANCE,
        "test accuracy {:.3f}, {:.3f}, {:.3f}, {:.3f} where X_2 tells in 0, 50, 90 and 100 % of "
        "samples; S_2 {:.3f}, {:.3f}, {:.3f}, {:.3f}",
        [
            f"resistance/dose-default {setting}: {score}"
            for score in ("test accuracy", "S_2")
            for setting in ("B", "rho 0.5", "rho 0.9", "A")
        ],
    ),
    (
        RESISTANCE,
        "test accuracy {:.3f}, {:.3f}, {:.3f}, {:.3f} where Y_2 may be one of 1, 2, 5 and 10 "
        "labels",
        [
            f"resistance/widths-default {setting}: test accuracy"
            for setting in ("width 1", "A", "width 5", "B")
        ],
    ),
    (
        RESISTANCE,
        "SGD's networks have test accuracy {:.3f}, {:.3f}, {:.3f}, {:.3f}, {:.3f}, guesses none, "
        "{:.3f}, {:.3f}, {:.3f}, {:.3f}, walks {:.3f}, {:.3f}, {:.3f}, {:.3f}, {:.3f}.",
        [
            f"resistance/control-default {way}, scale {start}: test accuracy"
            for way in ("sgd", "guess", "metropolis")
            for start in CONTROL_STARTS
            if (way, start) != ("guess", "1, biases 0")
        ],
    ),
    (
        RESISTANCE,
        "at loss 0.1: SGD {:.3f}, {:.3f}, {:.3f}, {:.3f}, walks {:.3f}, {:.3f}, {:.3f}, {:.3f}.",
        [
            f"resistance/capacity-default {way}, scale 2, width {width}: test accuracy"
            for way in ("sgd", "metropolis")
            for width in (4, 8, 16, 32)
        ],
    ),
    (
        RESISTANCE,
        "where gradient descent goes on, SGD {:.3f}, {:.3f}, {:.3f}, {:.3f}, walks {:.3f}, {:.3f}, "
        "{:.3f}, {:.3f}",
        [
            f"resistance/capacity-default {way}, scale 2, width {width}: "
            "test accuracy at loss 0.005"
            for way in ("sgd", "metropolis")
            for width in (4, 8, 16, 32)
        ],
    ),
    (
        RESISTANCE,
        "after one pass test accuracy is {:.2f}. The boundary starts",
        ["resistance/first_step-default test accuracy"],
    ),
    (
        RESISTANCE,
        "is {:.0f} away after a step on all cells; a step on one cell alone leaves it {:.0f}, "
        "{:.0f} and {:.0f} away",
        [
            f"resistance/first_step-default {cell}: tilt after the first step"
            for cell in ("all cells", "cell (0, 0)", "cell (0, 1)", "cell (1, 0)")
        ],
    ),
    (
        RESISTANCE,
        "test {:.3f} in A, {:.3f} in the control; single updates {:.3f} and {:.3f}; as the cited "
        "demo has it {:.3f} and {:.3f}",
        [
            f"resistance/starts-default {part}/{setting}: test accuracy"
            for part in ("he", "updates", "playground")
            for setting in ("A", "control")
        ],
    ),
    (
        RESISTANCE,
        "brings A's test from {:.3f} to {:.3f}, {:.3f} and {:.3f} (one",
        [
            f"resistance/remedies-default plane_plain/A, penalty {x}: test accuracy"
            for x in (0, 0.01, 0.1, 1)
        ],
    ),
    (
        RESISTANCE,
        "do not repair it: {:.3f}, the control {:.3f} (0.077: all 20 seeds agree, but a few differ "
        "by far the most), interventional information {:.4f} against {:.4f} nats (0.25): "
        "underpowered; with a penalty of 0.1 they do, {:.3f}",
        [
            *(
                f"resistance/remedies-default plane_towers/{setting}, penalty 0: {score}"
                for score in ("test accuracy", "interventional information")
                for setting in ("A", "control")
            ),
            "resistance/remedies-default plane_towers/A, penalty 0.1: test accuracy",
        ],
    ),
    (
        RESISTANCE,
        "A's test is {:.3f} at the end, where `plane`'s runs of the same seeds had {:.3f} after "
        "1,024, the control's {:.3f}",
        [
            "resistance/heal-default plane/A: test accuracy",
            "resistance/plane-default A: test accuracy",
            "resistance/heal-default plane/control: test accuracy",
        ],
    ),
    (
        RESISTANCE,
        "SGD has {:.3f} from weights of scale 1, {:.3f} and {:.3f} from scales 2 and 3",
        [
            f"resistance/control-default sgd, scale {start}: test accuracy at loss 0.02"
            for start in CONTROL_STARTS[:3]
        ],
    ),
    (
        RESISTANCE,
        "SGD {:.3f}, the mean of its iterates {:.3f}, momentum {:.3f}, AdaGrad {:.3f}, AdaDelta "
        "{:.3f}, RMSProp {:.3f}, Adam {:.3f}, sign descent {:.3f}, full batch {:.3f}, Gauss-Newton "
        "{:.3f}, an evolution strategy {:.3f}, guesses {:.3f}, walks {:.3f}",
        [
            f"resistance/optimisers-default {way}, scale 2: test accuracy"
            for way in ("sgd", "average", "momentum", "adagrad", "adadelta", "rmsprop", "adam",
                        "sign", "gd", "gauss_newton", "evolution", "guess", "metropolis")
        ],
    ),
    (
        RESISTANCE,
        "right in A {:.3f}, in B {:.3f} (1,500 lines each), of training {:.3f} in both; action "
        "words' share at structure positions {:.2f} and {:.2f}",
        [
            "resistance/scan-default A: test accuracy, 1,500 lines",
            "resistance/scan-default B: test accuracy, 1,500 lines",
            "resistance/scan-default A: train accuracy, 1,500 lines",
            "resistance/scan-default A: S of action words in structure",
            "resistance/scan-default B: S of action words in structure",
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    "readme, sentence, paths", SENTENCES, ids=[plain(sentence)[:40] for _, sentence, _ in SENTENCES]
)
def test_a_sentence_says_what_the_record_holds(readme, sentence, paths):
    assert len(re.findall(r"{[^}]*}", sentence)) == len(paths)
    expected = sentence.format(*map(number, paths))
    assert expected in plain(readme.read_text()), expected


def test_no_depth_of_a_decoder_helps():
    """The spans of B2 in the README, over depths."""
    metrics = read_json(report.RECORD / "bumps" / "B2-paper.json")["metrics"]
    errors = {
        net: [m["ours"] for name, m in metrics.items() if re.fullmatch(rf"{net}_\d+/ood mse", name)]
        for net in ("cnn", "mlp")
    }
    spans = [(min(values), max(values)) for values in errors.values()]
    expected = (
        "OOD MSE from {:.4f} to {:.4f} for CNNs of 2 to 10 layers, {:.4f} to {:.4f} for MLPs of 3 "
        "to 7"
    ).format(*spans[0], *spans[1])
    assert expected in plain(BUMPS.read_text()), expected
    learned = [m["ours"] for name, m in metrics.items() if name.endswith("criterion reached")]
    assert len(learned) == 14 and min(learned) == 1


def test_superposition_cell_by_cell():
    """What the README counts over the cells of the table."""
    metrics = read_json(report.RECORD / "bumps" / "table-paper.json")["metrics"]

    def cells(ending):
        return {name.removesuffix(f": {ending}"): found["ours"]
                for name, found in metrics.items() if name.endswith(f": {ending}")}  # fmt: skip

    sums = cells("additive R2")
    superposed = {name: r2 for name, r2 in cells("binary kernel R2").items() if r2 > 0}
    regions = ("donut_6_22", "corner_14", "cross_11_17")
    of_mlp = [superposed.pop(f"mlp/{region}, stripes x0") for region in regions]
    (of_embedding,) = superposed.values()
    assert list(superposed) == [f"embed/cross_11_17, stripes x0, {REMEDY}"]
    expected = (
        "in {} of the {} cells a sum a(x) + b(y) explains more than 0.6 of the images in the hole. "
        "The binary kernel explains some of them, R2 above 0, in 4 cells: the MLP without stripes "
        "({:.2f}, {:.2f} and {:.2f} by region) and the embedding network with penalties on the "
        "cross ({:.2f})"
    ).format(sum(r2 > 0.6 for r2 in sums.values()), len(sums), *of_mlp, of_embedding)
    assert expected in plain(BUMPS.read_text()), expected
    errors = cells("ood nmse")
    cross = [error for name, error in errors.items() if "/cross_11_17, stripes x0" in name]
    assert len(cross) == 8 and min(cross) >= 1.0
    flat = errors["product/cross_11_17, stripes x1, null_axis 0.001"]
    assert f"product fields that must be flat have {flat:.2f}" in plain(BUMPS.read_text())


def test_profiles_compose_for_four_of_five_seeds():
    metrics = read_json(report.RECORD / "bumps" / "ablation-paper.json")["metrics"]
    values = np.array(metrics["profiles/ood nmse"]["values"])
    assert np.sum(values < 0.02) == 4 and np.sum(values > 100) == 1
    assert "compose for four of five seeds; one is stuck" in plain(BUMPS.read_text())


def judged(entry):
    """The paper's claims on a recorded run, by name."""
    return {one["claim"]: one for one in experiments.family("resistance").judged(entry)}


def resistance_runs(size):
    return {(entry["row"], entry["label"]): entry for entry in report.entries("resistance")
            if entry["size"] == size}  # fmt: skip


def test_claims_are_judged_as_the_readme_says():
    """Every claim of the paper that a recorded run judges: those that do not match are named."""
    verdicts = {
        (row, name): one
        for (row, _), entry in resistance_runs("default").items()
        for name, one in judged(entry).items()
        if not name.startswith("SGD below")
    }
    words = {key: one["verdict"] for key, one in verdicts.items() if one["verdict"] != "match"}
    assert words == {
        ("demo", "digits: A trains faster"): "underpowered",
        ("demo", "digits: A uses X_2 more"): "underpowered",
        ("demo", "plane: A fails more on the test"): "underpowered",
        ("demo", "plane: A uses X_2 more"): "underpowered",
        ("landscape", "A's end is nearer to the start"): "underpowered",
        ("one_step", "plane: a step raises D_2, X_2 telling"): "no match",
        ("plane", "A tells of Y_2 when X_2 is free"): "underpowered",
        ("remedies", "towers do not repair A"): "underpowered",
        ("remedies", "towers leave A's information, Y_1 given"): "underpowered",
        ("remedies", "towers leave A's information, X_2 free"): "underpowered",
        ("scan", "A trains faster"): "underpowered",
        ("scan", "A has the larger gap"): "underpowered",
    }
    text = plain(RESISTANCE.read_text())
    for names, sentence in (
        ((("demo", "digits: A has the larger gap"), ("demo", "digits: B has hardly a gap (0.05)")),
         "The larger gap and the small one of B match ({:.2g}, {:.2g})"),
        ((("demo", "digits: A trains faster"), ("demo", "digits: A uses X_2 more"),
          ("demo", "plane: A fails more on the test"), ("demo", "plane: A uses X_2 more")),
         "underpowered with 5 seeds ({:.2g}, {:.2g}, {:.2g}, {:.2g})"),
        ((("plane", "A fails more on the test"),), "0.985 in the control ({:.2g})"),
        ((("plane", "A fits faster at first"),), "0.869 against 0.831 ({:.2g})"),
        ((("plane", "A uses X_2 more"),), "S_2 0.076 against 0.061 ({:.2g})"),
        ((("plane", "A tells of Y_2 when X_2 is free"),), "nats is underpowered ({:.2g})"),
        ((("one_step", "plane: a step raises D_2, X_2 telling"),), "does not match ({:.2g})"),
        ((("one_step", "plane: more than with X_2 re-drawn"),), "X_2 does, -0.0109 ({:.2g})"),
        ((("landscape", "A's end is nearer to the start"),), "solution is nearer ({:.2g},"),
        ((("remedies", "towers do not repair A"),), "the control 0.988 ({:.2g}: all 20 seeds"),
        ((("remedies", "towers leave A's information, X_2 free"),), "0.0001 nats ({:.2g})"),
        ((("remedies", "towers leave A's information, Y_1 given"),), "no difference ({:.2g})"),
    ):  # fmt: skip
        expected = plain(sentence.format(*(verdicts[name]["p_holm"] for name in names)))
        assert expected in text, expected
    most = {row: max(one["p_holm"] for (name, _), one in verdicts.items() if name == row)
            for row in ("starts", "mnist")}  # fmt: skip
    assert f"matches in all three (at most {most['starts']:.2g})" in text
    assert f"All five claims match (at most {most['mnist']:.2g})" in text


def test_the_plane_at_the_papers_length():
    short, whole = resistance_runs("default"), resistance_runs("paper")
    n = 0
    for row in ("heads", "one_step", "remedies", "heal"):
        before = judged(short[row, ""])
        for name, one in judged(whole[row, "plane"]).items():
            assert one["verdict"] == before[name]["verdict"], (row, name)
            n += 1
    assert n == 3 + 2 + 3 + 1
    name = "plane: A uses X_2 more"
    before, now = judged(short["demo", ""])[name], judged(whole["demo", "plane"])[name]
    assert (before["verdict"], now["verdict"]) == ("underpowered", "match")
    told = "In `demo` A uses X_2 more (S_2 {ours:.3f} against {against:.3f}, p {p_holm:.3f})"
    assert plain(told.format(**now)) in plain(RESISTANCE.read_text())


def test_claims_at_the_papers_length():
    """All of A against B match; how far SGD's networks are behind guesses; the optimisers' span."""
    entries = resistance_runs("paper")
    verdicts = {(row, name): one for (row, _), entry in entries.items()
                if row in ("mnist", "scan", "optimisers", "architectures")
                for name, one in judged(entry).items()}  # fmt: skip
    odd = {key for key, one in verdicts.items() if one["verdict"] != "match"}
    assert odd == {("optimisers", f"SGD below {how}, scale 2") for how in ("guesses", "walks")}
    assert len(judged(entries["mnist", ""])) == len(judged(entries["mnist", "three_conv"])) == 5
    assert max(one["p_holm"] for (row, _), one in verdicts.items() if row == "mnist") < 1e-7
    architectures = [one["p_holm"] for (row, _), one in verdicts.items() if row == "architectures"]
    assert len(architectures) == 8 and f"{max(architectures):.0e}" == "1e-04"
    text = plain(RESISTANCE.read_text())
    scan = entries["scan", ""]["metrics"]
    assert f"(sd over seeds {scan['A: gap']['sd']:.3f})" in text
    assert all(f"{scan[f'{b}: test accuracy, whole set']['ours']:.4f}" == "1.0000"
               for b in ("B", "B, jump replaced"))  # fmt: skip
    behind = [
        entries["control", ""]["metrics"][f"sgd, scale {n}, biases 1: less guesses of nearest norm"]
        for n in (2, 3)
    ]
    expected = "SGD's are {:.3f} and {:.3f} behind, with a deviation of {:.2f} and {:.2f}".format(
        *(-one["ours"] for one in behind), *(one["sd"] for one in behind)
    )
    assert expected in text, expected
    found = entries["optimisers", ""]["metrics"]
    means = [
        metric["ours"]
        for name, metric in found.items()
        if name.endswith(", scale 2: test accuracy") and not name.startswith(("guess", "metro"))
    ]
    assert len(means) == 11
    assert f"eleven of them lie between {min(means):.3f} and {max(means):.3f}" in text


def searches(size):
    """Comparisons of SGD with guesses and walks, of different runs: rows share a start."""
    return {
        (one["ours"], one["against"]): one
        for (row, _), entry in resistance_runs(size).items()
        if row in ("control", "capacity")
        for one in judged(entry).values()
        if one["p"] is not None
    }


def test_gradient_descent_is_held_against_searches_at_the_papers_length():
    compared = searches("paper")
    matches = [one for one in compared.values() if one["verdict"] == "match"]
    assert {one["verdict"] for one in compared.values()} == {"match", "underpowered"}
    least, most = (f([against for _, against in compared]) for f in (min, max))
    text = plain(RESISTANCE.read_text())
    (match,) = matches
    assert match["claim"] == "SGD below walks, scale 2, width 16"
    assert (
        f'Of {len(compared)} comparisons that can be judged "SGD composes less" matches in 1, '
        f"walks at width 16 (p {match['p_holm']:.2g})"
    ) in text
    assert f"without any gradient have {least:.2f} to {most:.2f}" in text


def test_gradient_descent_is_held_against_searches():
    """How often SGD's networks compose less than guesses and walks, at default size."""
    compared = searches("default")
    assert {one["verdict"] for one in compared.values()} == {"underpowered"}
    text = plain(RESISTANCE.read_text())
    assert f"of {len(compared)} comparisons of test accuracy" in text
    first, second = sorted(compared.values(), key=lambda one: one["p"])[:2]
    assert all("width 16" in one["claim"] for one in (first, second))
    assert f"({second['p']:.2g} and {first['p']:.2g} before Holm)" in text


PUBLISHED_SPLITS = (
    ("anaphora_singular-fast-published_splits", "scratch", ("antecedent", "pronoun")),
    ("anaphora_singular-fast-published_splits", "scratch_minilm", ("antecedent", "pronoun")),
    ("anaphora_singular-fast-published_splits_pretrained", "pretrained", ("antecedent", "pronoun")),
    ("agreement_singular-fast-published_splits", "scratch", AGREEMENT),
    ("agreement_singular-fast-published_splits", "scratch_minilm", AGREEMENT),
    ("agreement_singular-fast-published_splits_pretrained", "pretrained", AGREEMENT),
    ("agreement_plural-fast-published_splits", "scratch", AGREEMENT),
    ("agreement_plural-fast-published_splits_minilm", "scratch_minilm", AGREEMENT),
    ("agreement_plural-fast-published_splits_pretrained", "pretrained", AGREEMENT),
    ("agreement_plural-fast-published_splits_pretrained_90", "pretrained", AGREEMENT),
)
RESNETS = (
    ("number_contact-fast-10000_problems", "resnet50", CONTACT),
    ("inside_contact-fast-10000_problems", "resnet50", ("inside", "contact")),
    ("wide-fast-10000_problems", "number_contact", CONTACT),
    ("simclr-fast-10000_problems", "number_contact", CONTACT),
    ("pruned-fast-10000_problems", "number_contact", CONTACT),
)
MEANS = {
    "BERT-small {:+.2f} and {:+.2f}": [one for one in PUBLISHED_SPLITS if one[1] == "scratch"],
    "pretrained MiniLM {:+.2f} and {:+.2f}": [
        one
        for one in PUBLISHED_SPLITS
        if one[1] == "pretrained" and one[0] != "agreement_plural-fast-published_splits_pretrained"
    ],
    "over the two rules {:+.3f} and {:+.3f}; the paper's ResNet50": RESNETS[:2],
}


@pytest.mark.parametrize("sentence", MEANS)
def test_means_over_rules(sentence):
    found = [
        [
            number(f"subnetworks/{file} {part}/{name}: {key}")
            for file, part, names in MEANS[sentence]
            for name in names
        ]
        for key in ("sub_diff", "abl_diff")
    ]
    assert sentence.format(*np.mean(found, axis=1)) in plain(SUBNETWORKS.read_text())


@pytest.mark.parametrize("file, part, subroutines", [*PUBLISHED_SPLITS, *RESNETS])
def test_masks_beside_the_papers(file, part, subroutines):
    metrics = read_json(report.RECORD / "subnetworks" / f"{file}.json")["metrics"]
    text = plain(SUBNETWORKS.read_text())

    def signed(value):
        return f"{value:+.3f}" if abs(value) >= 5e-4 else "0.000"

    def beside(metric, words):
        theirs = metric.get("paper")
        return words(metric["ours"]) + (f" ({words(theirs)})" if theirs is not None else "")

    bases = metrics[f"{part}/base: test accuracy"]["values"]
    each = (
        "{:.3f}, {:.3f}, {:.3f}".format(*bases)
        if len(set(bases)) > 1
        else f"{bases[0]:.3f}" + " each" * (len(bases) > 1)
    )
    counted = round(len(bases) * metrics[f"{part}/base: share that counts"]["ours"])
    n = counted * (1 if (file, part, subroutines) in RESNETS else 3)  # masks
    for i, name in enumerate(subroutines):
        sub, gone, beyond, kept, full = (
            metrics[f"{part}/{name}: {key}"]
            for key in ("sub_diff", "abl_diff", "abl_diff beyond random removals", "kept",
                        "full pattern")
        )  # fmt: skip
        expected = " | ".join((
            "" if i else each, name, beside(sub, signed), beside(gone, signed),
            signed(gone["ours"] - beyond["ours"]), beside(kept, "{:.3f}".format),
            f"{n * full['ours']:.0f} of {n} |",
        ))  # fmt: skip
        assert expected in text, expected


def test_bases_that_learned_one_subroutine_and_those_of_the_vit():
    inside = read_json(report.RECORD / "subnetworks" / "inside_contact-fast-10000_problems.json")
    alone = {
        name: inside["metrics"][f"resnet50/base: {name} alone"]["values"][:2]
        for name in ("inside", "contact")
    }
    text = plain(SUBNETWORKS.read_text())
    assert "({:.2f} and {:.2f}; ".format(*alone["inside"]) in text
    assert "contact {:.2f} and {:.2f}, which is chance".format(*alone["contact"]) in text
    vit = read_json(report.RECORD / "subnetworks" / "vit-fast-10000_problems.json")["metrics"]
    for rule, form in (
        ("number_contact", "number and contact {:.3f} (paper {:.3f})"),
        ("inside_number", "inside and number {:.3f} ({:.3f})"),
        ("inside_contact", "inside and contact {:.3f} ({:.3f})"),
    ):
        found = vit[f"{rule}/base: validation accuracy"]
        assert form.format(found["ours"], found["paper"]) in text


def test_the_demonstration_of_subnetworks():
    """Its table, and what the tests of its small BERT say."""
    metrics = read_json(report.RECORD / "subnetworks" / "demo-default.json")["metrics"]
    text = plain(SUBNETWORKS.read_text())
    for part, word in (("bert", "BERT"), ("modular", "modular")):
        for name in ("subject", "verb"):
            found = {
                key: metrics[f"{part}/{name}: {key}"]
                for key in (
                    "sub_diff",
                    "abl_diff",
                    "abl_diff beyond random removals",
                    "kept",
                    "full pattern",
                )
            }
            sub, abl, beyond, kept, pattern = (one["ours"] for one in found.values())
            null = f"{abl - beyond:+.3f}" if abs(abl - beyond) >= 5e-4 else "0.000"
            n = len(found["full pattern"]["values"])
            expected = (f"| {word}, {name} | {sub:+.3f} | {abl:+.3f} | {null} | {kept:.3f} | "
                        f"{round(n * pattern)} of {n} |")  # fmt: skip
            assert expected in text, expected
    none = ("sub_diff", "abl_diff", "kept", "full pattern")
    assert all(metrics[f"template/{name}: {key}"]["ours"] == pytest.approx(0, abs=1e-6)
               for name in ("subject", "verb") for key in none)  # fmt: skip
    p = [metrics[f"bert/{name}"]["ours"] for name in (
        "subject: p of sub_diff", "verb: p of sub_diff", "subject: p of abl_diff")]  # fmt: skip
    assert "(p {:.3f}, {:.3f}, {:.3f})".format(*p) in text
    assert metrics["bert/verb: p of abl_diff"]["ours"] > 0.05
    single = [
        m for name in ("subject", "verb") for m in metrics[f"bert/{name}: abl_diff"]["values"]
    ]
    assert f"abl_diff of single bases goes from {min(single):.2f} to {max(single):.2f}" in text


def test_what_is_told_across_papers():
    """Which differences of two theories hold, and what the late rules of support have changed."""
    (entry,) = report.entries("across")
    metrics, text = entry["metrics"], plain(ACROSS.read_text())
    ends = {
        name: [metrics[f"{name}, {end}"]["ours"] for end in ("low", "high")]
        for name in metrics
        if " less " in name and name.endswith(": tau")
    }
    told = [name for name, (low, high) in ends.items() if low > 0 or high < 0]
    assert len(ends) == 10 and told == ["support less factorization: tau"]
    table = answers.Table.of(entry["config"]["parts"], metrics)
    assert f"{len(table.names)} pairs, three seeds each" in text
    before = {"vectors_mlp_random": 1, "plane_plain_control": 1, "plane_heads_control": 1,
              "bumps_product_stripes": 0}  # fmt: skip
    for name, value in before.items():
        (row,) = np.flatnonzero(table.names == name)
        assert table.columns["support"][row] == 1 - value
        table.columns["support"][row] = value
    families, x, y = table.where("support", "error")
    tau = stats.kendall_tau_b(x, y, families)
    assert f"without it tau would be {tau:+.2f}" in text


def differences(ending: str, rows: str) -> list[float]:
    """Ours less the paper's, of recorded kernels metrics whose names hold these words."""
    return [
        metric["ours"] - metric["paper"]
        for entry in report.entries("kernels")
        if re.fullmatch(rows, entry["row"])
        for name, metric in entry["metrics"].items()
        if ending in name and metric["paper"] is not None
    ]


def test_predictions_of_lazy_slopes():
    metrics = read_json(report.RECORD / "kernels" / "demo-default.json")["metrics"]
    text = plain(KERNELS.read_text())
    lazy = [f"addition/{name}, sigma 1" for name in ADDITION]
    gaps = [
        metrics[f"{cell}: predicted slope before"]["ours"] - metrics[f"{cell}: slope"]["ours"]
        for cell in lazy
    ]
    assert f"says the mean lazy slope to {max(map(abs, gaps)):.3f}" in text
    each = [[np.array(metrics[f"{cell}: {name}"]["values"]) for name in SLOPES] for cell in lazy]
    tau = sorted(np.corrcoef(slope, predicted)[0, 1] for slope, predicted in each)
    low = sorted(np.mean(predicted - slope) for slope, predicted in each)
    expected = (
        f"correlate by {tau[0]:.3f} to {tau[-1]:.3f} over seeds on each training set, the slopes "
        f"{low[0]:.3f} to {low[-1]:.3f} lower in the mean"
    )
    assert expected in text, expected


def test_additivity_and_shares_of_image_networks():
    gaps = sorted(map(abs, differences("mean additivity", r"\w+_(mnist|cifar)\w*")))
    text = plain(KERNELS.read_text())
    assert f"within {gaps[-3]:.3f} of the paper's in every recorded run but two" in text
    shares = max(map(abs, differences("magnitude", "cd_mnist")))
    assert f"within {shares:.3f} of the paper in every share" in text


def seeds_of(file, metric):
    return read_json(report.RECORD / f"{file}.json")["metrics"][metric]["values"]


def test_how_many_rules_of_the_paper_have_run_on_an_accelerator():
    language = [f"{rule}_{which}" for rule in ("agreement", "anaphora") for which in NUMBERS]
    rules = {*language, "inside_contact", "inside_number", "number_contact"}
    entries = report.entries("subnetworks")
    have_run = rules & {entry["row"] for entry in entries if entry["size"] == "fast"}
    assert (len(have_run), len(rules)) == (5, 7)
    assert "five of the paper's seven rules have run at a reduced size" in plain(FRONT.read_text())


def test_slopes_by_kernels_and_by_the_compilers_forms():
    text, metric = plain(KERNELS.read_text()), "extrapolation, d=0: slope"
    new, old = (
        seeds_of(f"kernels/addition_mnist-fast-ext_d0{label}", metric) for label in ("_kernels", "")
    )
    assert (
        "{:.3f} and {:.3f} ({:.3f} and {:.3f} before; a third seed {:.3f})".format(*new, *old)
    ) in text
    new, old = (
        seeds_of(f"kernels/addition_cifar_resnet-fast-ext{label}", metric)
        for label in ("_kernels", "")
    )
    assert "{:.3f} and {:.3f} ({:.3f} and {:.3f})".format(*new, *old) in text
