"""The words that conversations are made of: people, places, things, and which kind a thing is."""

PEOPLE = """Ada Ben Cleo Dan Eva Finn Gia Hugo Ida Jon Kai Lea Max Nora Otto Pia Quin Rosa Sam Tess
Uma Vera Will Xena Yara Zoe Amos Bella Carl Dora Emil Faye Gus Hana Ivan Jane Karl Lena Milo Nina
""".split()

CITIES = """Paris Rome Oslo Lima Cairo Delhi Tokyo Accra Seoul Dublin Vienna Madrid Athens Warsaw
Havana Nairobi Lisbon Berlin Quito Stockholm""".split()
COUNTRIES = """France Italy Norway Peru Egypt India Japan Ghana Korea Ireland Austria Spain Greece
Poland Cuba Kenya Portugal Germany Ecuador Sweden""".split()

GOODS = """apples books coins pens stamps eggs shells cards marbles cups stones tickets balls keys
lamps""".split()

KINDS = {
    "animal": """dog cat horse lion tiger bear wolf fox sheep goat rabbit mouse whale shark eagle
        owl duck frog snake ant bee spider cow pig deer camel""".split(),
    "fruit": """apple pear plum peach grape lemon lime melon cherry mango fig banana kiwi papaya
        apricot""".split(),
    "colour": """red blue green yellow purple brown black white pink grey violet silver
        teal""".split(),
    "tool": """hammer saw drill wrench pliers chisel axe spade rake screwdriver knife
        scissors""".split(),
    "metal": """iron copper tin lead zinc nickel cobalt titanium platinum tungsten""".split(),
    "planet": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split(),
    "instrument": "piano violin cello flute drum harp guitar trumpet oboe tuba banjo".split(),
    "country": COUNTRIES,
}

# Without I, O, 0 and 1, which people mistake for one another.
CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"

# For sentences that say nothing of matter (prose.py).
ADJECTIVES = """old young quiet heavy bright narrow broken wooden distant gentle careful hungry
empty early patient golden bitter famous ordinary northern silent curious""".split()
NOUNS = """captain teacher farmer river garden letter window bridge market story lantern carpenter
doctor village mountain painter kitchen harbour forest train neighbour child clock road ship baker
station library engine winter morning field island""".split()
VERBS = """watched carried followed opened remembered repaired painted crossed found left visited
described measured answered forgot bought washed guarded counted moved""".split()
ADVERBS = "slowly again twice together carefully once alone quickly often never".split()
LINKS = "before after near behind because while although until beside without".split()
