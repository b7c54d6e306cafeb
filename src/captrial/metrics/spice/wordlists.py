"""The closed lists of words of SPICE, its lemmatiser and the parser corrections."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text written as a list."""
    return frozenset(text.split())


# Categories of attributes (`spice`)
COUNTS = words("one two three four five six seven eight nine ten")
COLORS = words(
    "black brown blue red yellow pink gray grey green dark light white cream orange purple maroon beige violet"
)
# Our own list of adjectives of size; the original has another of about the same length.
SIZES = words(
    """ample astronomical average baby beefy big bitty boundless brawny brief broad bulky bumper capacious chubby chunky
    colossal compact considerable corpulent deep diminutive dinky elephantine endless enlarged enormous epic expansive
    extensive fat full-size full-sized gargantuan generous giant gigantic grand great heavy hefty herculean high huge
    hulking humongous immeasurable immense infinitesimal jumbo king-size large largish lean lengthy life-size limited
    little long low mammoth massive mega meager medium medium-sized micro microscopic middling mighty mini miniature
    minuscule minute monstrous monumental narrow oversize oversized petite plump pocket-size portly puny scanty shallow
    short shrimpy sizable sizeable skinny slender slight slim small smallish spacious squat stocky stout stunted sub
    substantial tall teensy teeny thick thin tiny titanic towering tremendous underweight undersized vast voluminous wee
    whopping wide"""
)

# Quantifiers (`tuple_patterns`): `a lot of X`, `dozens of X`, `two of the X`
A_QUANTITY = words(
    """lot assortment number couple bunch handful litany sheaf slew dozen series variety multitude wad clutch wave
    mountain array spate string ton range plethora heap sort form kind type version bit pair triple total"""
)
QUANTITIES = words(
    """lots many several plenty tons dozens multitudes mountains loads pairs tens hundreds thousands millions billions
    trillions"""
)
OF_THE = words(
    """some all both neither everyone nobody one two three four five six seven eight nine ten hundred thousand million
    billion trillion"""
)
SINGULAR_PRONOUNS = words(
    "i me myself mine my yourself he him himself his she her herself hers it itself its one oneself one's"
)

# Prepositions (`dependencies`): two words before their noun, or three around an inner noun
TWO_WORD = words(
    """across_from along_with alongside_of apart_from as_for as_from as_of as_per as_to aside_from based_on close_by
    close_to contrary_to compared_to compared_with except_for exclusive_of far_from followed_by inside_of
    irrespective_of next_to near_to off_of out_of outside_of owing_to preliminary_to preparatory_to previous_to
    pursuant_to regardless_of subsequent_to thanks_to together_with away_from"""
)
THREE_WORD = words(
    """by_means_of in_accordance_with in_addition_to in_case_of in_front_of in_lieu_of in_place_of in_spite_of
    on_account_of on_behalf_of on_top_of with_regard_to with_respect_to"""
)

# Lemmas (`lemmatizer`): words in -s that are lemmas themselves, and words in -ie whose plural is regular
PLURAL_ONLY = words(
    """pants clothes scissors goggles binoculars electronics belongings fries supplies contents pajamas pyjamas shorts
    slacks indoors outdoors bedclothes goods abs series species headquarters jeans trousers tights overalls surroundings
    sprinkles bushes savings premises thanks means besides doubles someones crossroads barracks gallows tongs pliers
    tweezers people fives fours glassworks graphics athletics gymnastics aerobics mathematics ceramics news debris lens
    bus gas bass canvas christmas tennis focus apparatus chaos cactus virus campus octopus walrus hippopotamus
    rhinoceros citrus asparagus bias atlas cosmos iris pelvis oasis analysis basis axis this chassis trellis pancreas
    alias"""
)
IN_IE = words(
    """cookie smoothie movie hoodie zombie selfie brownie rookie pixie collie calorie genie tie pie lie die birdie
    eerie prairie aerie bourgeoisie camaraderie foodie goalie doggie"""
)

# Tags (`parser_corrections`): words that the original's parser tags as another part of speech than spaCy does
ALWAYS_NOUNS = words("hydrant urinal tattoo oven vest sled skateboarder backpack")
ALWAYS_SINGULAR = words("broccoli spaghetti sheep")
PARTICIPLES = words("living skating boarding cutting")
MODIFIERS = words("skate orange laptop ski adult video plastic hind swim skateboard teddy kiddie stainless")
PEOPLES = words(
    """asian african american german european irish muslim mexican indian chinese japanese british french italian
    spanish english russian arab hispanic"""
)
PREDICATES = words(
    """run walk stand sit hold look pose carry fly lay throw perform gather reach swim eat jump play fetch bite sniff
    glide surround wrestle hug chase lick roll return drink splash bend hide catch stares sits stands walks runs jumps
    rides plays"""
)

# Clauses (`parser_corrections`): words in -ing, and bare verbs after `be`, that are taken for nouns
NOUN_TAGS = words("DT JJ JJR JJS NN NNS NNP NNPS CD PRP$ POS VBN")
GERUND_NOUNS = words("standing grazing skiing surfing hiding skateboarding plowing decorating fling siting")
LEADING_GERUND_NOUNS = GERUND_NOUNS | words(
    "holding eating playing swinging swimming feeding resting sleeping fighting hugging carrying"
)
VERBAL_NOUNS = words("jump stand play walk attempt dance race tug fight")

# Attachment (`parser_corrections`): prepositions that follow a verb over an object in between
DIRECTIONS = words(
    "to into onto through from down up along around off by toward towards out past while as after before until"
)
