"""Seeded text that looks for trouble: scripts, white space, contractions, emoji, code, runs."""
import random
import unicodedata

WORDS = """the of and to in that it is was for on with he as you do at this but his by from they we
say her she or an will my one all would there their what so up out if about who get which go me when
make can like time no just him know take people into year your good some could them see other than
then now look only come its over think also back after use two how our work first well way even new
want because any these give day most us naive cafe Zurich HTTPServer parseJSON getElementById
snake_case_name SCREAMING_CASE camelCase iPhone McDonald O'Neill they're we've I'll don't it's I'm
she'd IT'S WE'VE y'all 'tis rock'n'roll e.g. U.S.A. 3.14159 1,000,000 2026-08-01 12:34:56.789
0xDEADBEEF 1e-9 ½ ¾ ² ³ ①② Ⅷ ٣٤٥ ४५६ ๑๒๓ Größe naïve façade Ångström Übermut ﬁne ſo 'ſ 'S 'LL 'Re
""".split()
CODE = ["def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n",
        "#include <vector>\r\n\r\nint main() { return 0; }\r\n", "SELECT * FROM t WHERE a<>'b';--",
        "if (a && b || !c) { x ^= y >> 3; } // done\n\n\n",
        "{\"key\": [1, 2.5e10, null, \"\\u00e9\"]}",
        "<div class=\"a-b\">text &amp; more</div>\n",
        "git commit -m 'fix: don''t crash' && ./run.sh\n",
        "\\begin{equation} \\alpha_{ij} = \\frac{1}{2} \\end{equation}", "a/b//c/\n/\r\n\r/",
        "let x = |a, b| -> Result<(), E> { Ok(()) }?;", "        deeply    indented\t\t\tcode  \n"]
SCRIPTS = ["我们今天去公园散步然后回家吃饭中文字符测试汉语漢語", "日本語のテキストとカタカナとひらがなー々",
           "한국어텍스트는이렇게생겼습니다가각힣", "Привет мир как дела Съешь ещё этих мягких",
           "مرحبا بالعالم كيف حالك اَلْعَرَبِيَّةُ", "שלום עולם מה שלומך בְּרֵאשִׁית",
           "नमस्ते दुनिया आप कैसे हैं क्षत्रिय",
           "สวัสดีชาวโลกภาษาไทย", "Γειά σου Κόσμε ἄνθρωπος", "გამარჯობა მსოფლიო ᲐᲑᲒ",
           "வணக்கம் உலகம்", "សួស្តីពិភពលោក", "ជម្រាបសួរ", "မင်္ဂလာပါ", "አማርኛ ሰላም", "ǅ ǈ ᾈ ʰʷ ˈ ꟸ"]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇯🇵", "1️⃣", "❤️", "🧑🏿‍🚀", "⚕️", "🫠", "©️", "™"]
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", " \t \n  ",
          "\u00a0", "\u3000", "\u2003\u2003", "\u1680", "\u2028", "\x85", "\x0b\x0c", "\u200b",
          "\u200d", "\ufeff", "\x1c",
          "\r", "\r\r\n", "       ", "\u202f ", " \u00a0", "\n\t\n", "\x00", "\x7f", "\x1b[0m"]
SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
MARKS = ["\u0301", "\u0308\u0301", "\u0323\u0302", "\u0302\u0323", "\u20dd", "\u093c",
         "\u0345\u0301",
         "\u1dc0", "\u302a", "\u05b0", "\ufe0f", "\u1161", "\u11a8", "\u3099", "\u0327"]
ASSIGNED = [c for c in range(0x110000)
            if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) not in ("Cn", "Co")]


# What NFC moves, joins or takes apart; and a few from after Unicode 9.0, which it leaves alone.
COMBINING = [c for c in ASSIGNED if unicodedata.combining(chr(c)) or
             unicodedata.decomposition(chr(c))[:1] not in ("", "<")]
COMBINING += [*range(0x1100, 0x1200), 0x897, 0x105D2, 0x11382, 0x113C2, 0x16D63, 0x16D67, 0x16D6A]


def random_marks(rng):
    """A few letters under heaps of marks."""
    return "".join(chr(rng.choice(COMBINING)) if rng.random() < 0.8 else rng.choice("aeo\n ")
                   for _ in range(rng.randrange(2, 12)))


def random_code_points(rng, count):
    return "".join(chr(rng.choice(ASSIGNED)) for _ in range(count))


def any_code_points(rng, count):
    """Unassigned and private ones too."""
    return "".join(chr(c if c < 0xD800 else c + 0x800)
                   for c in (rng.randrange(0x110000 - 0x800) for _ in range(count)))


def script_text(rng):
    text = rng.choice(SCRIPTS)
    start = rng.randrange(len(text))
    return text[start:start + rng.randrange(1, 12)]


def marked(rng):
    base = rng.choice(["e", "A", "ö", "か", "ᄀ", "가", "ﬁ", "1", " ", "Å", "ệ", rng.choice(WORDS)])
    return base + "".join(rng.choice(MARKS) for _ in range(rng.randrange(1, 5)))


def long_run(rng):
    unit = rng.choice(["a", "A", "ab", "0", "01", " ", "\n", " \n", "!", "=-", "字", "é",
                       "e\u0301", "😀",
                       "aB", "Ab", "ʰA", "\u0301", "\t ", "'s", "\u3000", "x1"])
    return unit * rng.randrange(20, 400)


def numbers(rng):
    digits = rng.choice(["0123456789", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "0½²Ⅷ①9", "𝟎𝟏𝟐𝟑"])
    return "".join(rng.choice(digits) for _ in range(rng.randrange(1, 12)))


def identifier(rng):
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789$./-+"
    return "".join(rng.choice(letters) for _ in range(rng.randrange(1, 30)))


def document(rng, controls):
    """One text of about a kilobyte. `controls` are spellings to strew in."""
    makers = [(30, lambda: " ".join(rng.choices(WORDS, k=rng.randrange(1, 12)))),
              (8, lambda: rng.choice(CODE)), (14, lambda: script_text(rng)),
              (4, lambda: rng.choice(EMOJI) * rng.randrange(1, 3)),
              (16, lambda: "".join(rng.choices(SPACES, k=rng.randrange(1, 4)))),
              (5, lambda: marked(rng)), (4, lambda: numbers(rng)), (4, lambda: identifier(rng)),
              (4, lambda: random_code_points(rng, rng.randrange(1, 12))),
              (1, lambda: any_code_points(rng, rng.randrange(1, 6))),
              (1, lambda: long_run(rng)),
              (3, lambda: "".join(rng.choices(SIGNS, k=rng.randrange(1, 8)))),
              (4 if controls else 0, lambda: control_spelling(rng, controls))]
    weights = [weight for weight, _ in makers]
    parts = rng.choices([make for _, make in makers], weights=weights, k=rng.randrange(1, 90))
    return "".join(make() for make in parts)


def control_spelling(rng, controls):
    text = rng.choice(controls)
    style = rng.randrange(6)
    if style == 0:
        return text[:rng.randrange(1, len(text) + 1)]
    if style == 1:
        return text + text
    if style == 2:
        return " \n" + text + "  "
    if style == 3:
        return "x" + text + "é"
    return text


def documents(seed, size, controls=()):
    """Texts of `size` UTF-8 bytes in all, the same for the same arguments."""
    rng = random.Random(seed)
    out, total = [], 0
    while total < size:
        out.append(document(rng, list(controls)))
        total += len(out[-1].encode())
    return out


def every_kind_of_code_point():
    """Each assigned code point, of the caseless letters (ideographs, syllables) every ninth and the
    first of each run, between letters, digits, spaces, signs and itself."""
    caseless = lambda c: unicodedata.category(chr(c)) == "Lo"
    chosen = [c for c in ASSIGNED if not caseless(c) or c % 9 == 0 or not caseless(c - 1)]
    out = []
    for start in range(0, len(chosen), 400):
        points = [chr(c) for c in chosen[start:start + 400]]
        out.append("".join(f"x{c}y 1{c}{c}2 {c}!{c} 's" for c in points))
        out.append(" ".join(points))
        out.append("A".join(points))
    return out


def mangled(rng, text):
    """UTF-8 of `text` with bytes dropped, doubled, replaced and inserted; rarely valid any more."""
    raw = bytearray(text.encode())
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(raw) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            del raw[at:at + rng.randrange(1, 3)]
        elif kind == 1:
            raw[at:at] = bytes([rng.randrange(0x80, 0x100)] * rng.randrange(1, 4))
        elif kind == 2:
            raw[at:at] = rng.choice([b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xf8",
                                     b"\xe2\x82",
                                     b"\xf0\x9f\x98", b"\xff\xfe", b"\xef\xbf\xbd"])
        else:
            raw[at:at + 1] = bytes([rng.randrange(256)])
    return bytes(raw)
