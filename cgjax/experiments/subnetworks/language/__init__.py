"""Sentences whose subject and verb (or antecedent and pronoun) are singular or plural.

A template is a sequence of words and symbols; a symbol stands for any word of its list. A rule is
about the numbers of *head* and *dependent*. Nouns and verbs in between may have either number; no
rule depends on it. The templates are those of Marvin and Linzen.
"""

import functools
import itertools

NUMBERS = ("singular", "plural")
# The embedded verb's tense, for rules of three subroutines; a past form has no number.
TENSES = ("present", "past")

WORDS = {
    "MS": ("author", "pilot", "surgeon", "farmer", "manager", "customer", "officer", "teacher",
           "senator", "consultant"),
    "IS": ("movie", "book", "game", "song", "picture", "painting", "novel", "poem", "show"),
    "ES": ("guard", "chef", "architect", "skater", "dancer", "minister", "taxi driver",
           "assistant", "executive", "parent"),
    "MV": ("laughs", "swims", "smiles", "is tall", "is old", "is young", "is short"),
    "IV": ("is good", "is bad", "is new", "is popular", "is unpopular", "brings joy to people",
           "interests people"),
    "EV": ("likes", "admires", "hates", "loves"),
    "P": ("next to", "behind", "in front of", "near", "to the side of", "across from"),
    "IP": ("from", "by"),
    "RMV": ("hurt", "injured", "congratulated", "embarrassed", "disguised", "hated", "doubted"),
    "ANPHR": ("himself", "herself"),
}  # fmt: skip
NOUNS, VERBS = ("MS", "IS", "ES"), ("MV", "IV", "EV")
INFLECTED = (*NOUNS, *VERBS, "ANPHR")

# template: (sequence, symbols of the head's number, of the dependent's, of either number)
TEMPLATES = {
    "obj_rel_across_anim": ("the MS that the ES EV MV", ("MS",), ("MV",), ("ES", "EV")),
    "obj_rel_across_inanim": ("the IS that the ES EV IV", ("IS",), ("IV",), ("ES", "EV")),
    "obj_rel_no_comp_across_anim": ("the MS the ES EV MV", ("MS",), ("MV",), ("ES", "EV")),
    "obj_rel_no_comp_across_inanim": ("the IS the ES EV IV", ("IS",), ("IV",), ("ES", "EV")),
    "prep_anim": ("the MS P the ES MV", ("MS",), ("MV",), ("ES",)),
    "prep_inanim": ("the IS IP the ES IV", ("IS",), ("IV",), ("ES",)),
    "simple_agrmt": ("the MS MV", ("MS",), ("MV",), ()),
    "subj_rel": ("the MS that EV the ES MV", ("MS", "EV"), ("MV",), ("ES",)),
    "reflexives_across": ("the MS that the ES EV RMV ANPHR", ("MS",), ("ANPHR",), ("ES", "EV")),
    "simple_reflexives": ("the MS RMV ANPHR", ("MS",), ("ANPHR",), ()),
}
# Templates of rules with three subroutines: subject, main verb, and the tense of an embedded verb
# that agrees with neither.
THREE = tuple(name for name in TEMPLATES if name.startswith("obj_rel"))
FAMILIES = {
    "agreement": tuple(TEMPLATES)[:8],
    "anaphora": tuple(TEMPLATES)[8:],
    "three": THREE,
}
SUBROUTINES = {
    "agreement": ("subject", "verb"),
    "anaphora": ("antecedent", "pronoun"),
    "three": ("subject", "verb", "tense"),
}


def inflect(symbol: str, word: str, number: str, tense: str = "present") -> str:
    """The inflected form of a listed word: plural nouns add an s, plural verbs drop it."""
    if symbol == "EV" and tense == "past":
        return f"{word[:-1]}d"  # like -> liked: all four end in e
    if number == "singular" or symbol not in INFLECTED:
        return word
    if symbol in NOUNS:
        return f"{word}s"
    if symbol == "ANPHR":
        return "themselves"
    first, *rest = word.split(" ")
    return " ".join(["are" if first == "is" else first[:-1], *rest])


def sentences(
    template: str,
    head_number: str,
    dependent_number: str,
    tense: str = "present",
    words: dict = WORDS,
) -> list[str]:
    """All sentences of a template; equal sentences from different choices of words are kept."""
    return [
        " ".join(form) for _, form in _filled(template, head_number, dependent_number, tense, words)
    ]


def _filled(template, head_number, dependent_number, tense, words):
    """(choice of words, their forms) of every sentence."""
    sequence, head, dependent, free = TEMPLATES[template]
    symbols = sequence.split(" ")
    open_symbols = [symbol for symbol in symbols if symbol in words]
    for number in NUMBERS if free else NUMBERS[:1]:
        of = dict.fromkeys(free, number) | dict.fromkeys(head, head_number)
        of |= dict.fromkeys(dependent, dependent_number)
        lists = [
            [
                (word, inflect(symbol, word, of.get(symbol, "singular"), tense))
                for word in words[symbol]
            ]
            for symbol in open_symbols
        ]
        for choice in itertools.product(*lists):
            forms = iter(form for _, form in choice)
            text = [next(forms) if symbol in words else symbol for symbol in symbols]
            yield {symbol: word for symbol, (word, _) in zip(open_symbols, choice)}, text


# --- held-out sentences ---------------------------------------------------------------------------

HELD_OUT = ("nothing", "words", "combinations")
LAST = 2  # words of each list of nouns and verbs that `words` holds out; one of a list of two
EVERY = 5  # `combinations` holds out each fifth pair of head and dependent


def is_held_out(how: str, template: str, choice: dict) -> bool:
    """Whether this choice of words is excluded from training.

    words: training excludes one of its nouns or verbs. combinations: training excludes the pair of
    its head and dependent, but contains each of them in other pairs.
    """
    if how == "words":
        return any(
            choice[symbol] in _unseen(symbol)
            for symbol in (*NOUNS, *VERBS, "RMV")
            if symbol in choice
        )
    if how == "combinations":
        _, head, dependent, _ = TEMPLATES[template]
        place = WORDS[head[0]].index(choice[head[0]])
        beside = "RMV" if dependent[0] == "ANPHR" else dependent[0]
        return (place + WORDS[beside].index(choice[beside])) % EVERY == 0
    return False


def _unseen(symbol):
    return WORDS[symbol][-min(LAST, len(WORDS[symbol]) // 2) :]


@functools.cache
def pool(templates: tuple[str, ...], truth: tuple[bool, ...], number: str, held_out: str) -> tuple:
    """(sentences for training, held-out sentences) of one cell of a rule.

    truth: whether the head has the rule's number, whether the dependent has it, and, in rules of
    three, whether the embedded verb is in the present tense.
    """
    other = NUMBERS[1 - NUMBERS.index(number)]
    head, dependent = (number if true else other for true in truth[:2])
    tense = TENSES[0] if len(truth) == 2 or truth[2] else TENSES[1]
    pools = ([], [])
    for template in templates:
        for choice, form in _filled(template, head, dependent, tense, WORDS):
            pools[is_held_out(held_out, template, choice)].append(" ".join(form))
    return tuple(map(tuple, pools))


# --- tokens ---------------------------------------------------------------------------------------

PAD, CLS, SEP = "[PAD]", "[CLS]", "[SEP]"
TOKENS = ("words", "stems")


def split(sentence: str, tokens: str) -> list[str]:
    """Tokens of a closed vocabulary; stems: the number of nouns and verbs is a separate token."""
    words = sentence.split(" ")
    if tokens == "words":
        return words
    return [piece for word in words for piece in _pieces().get(word, (word,))]


@functools.cache
def _pieces() -> dict:
    pieces = {}
    for symbol in (*NOUNS, *VERBS):
        for word in WORDS[symbol]:
            singular = word.split(" ")[-1 if symbol in NOUNS else 0]
            if symbol in NOUNS:
                pieces[f"{singular}s"] = (singular, "##s")
            elif singular != "is":
                pieces[singular] = (singular[:-1], "##s")
            if symbol == "EV":
                pieces[f"{singular[:-1]}d"] = (singular[:-1], "##d")
    return pieces


@functools.cache
def vocabulary(tokens: str) -> dict[str, int]:
    """The closed vocabulary, padding first: every word of every template, for all rules.

    It includes the past-tense token, so that rules of two and three subroutines share it.
    """
    pieces = {"the", "that"}
    for symbol, words in WORDS.items():
        for word, number, tense in itertools.product(words, NUMBERS, TENSES):
            pieces |= set(split(inflect(symbol, word, number, tense), tokens))
    return {piece: i for i, piece in enumerate([PAD, CLS, SEP, *sorted(pieces)])}


def encode(sentence: str, tokens: str) -> list[int]:
    """Ids between [CLS] and [SEP]."""
    known = vocabulary(tokens)
    return [known[CLS], *(known[piece] for piece in split(sentence, tokens)), known[SEP]]
