"""The words of the opinions: things, what is judged about them, openers and verdicts."""

THINGS = {
    "film": ("film", "thriller", "comedy", "drama"),
    "restaurant": ("restaurant", "bistro", "diner", "pizzeria"),
    "gadget": ("phone", "laptop", "tablet", "video camera"),
    "hotel": ("hotel", "guesthouse", "hostel", "bed and breakfast"),
    "book": ("novel", "mystery", "saga", "historical romance"),
    "trip": ("tour", "cruise", "walking holiday", "city break"),
    "service": ("bank", "repair shop", "moving company", "language school"),
}

# noun: praise / blame. Only plurals (starred) and mass nouns, so that no article is needed.
ASPECTS = {
    "film": """
        acting: convincing, subtle, heartfelt / wooden, stiff, lifeless
        dialogue: witty, natural / clumsy, stilted
        jokes*: sharp, hilarious / stale, lazy
        music: stirring, beautiful / intrusive, tuneless
        characters*: believable, endearing / shallow, irritating
        action scenes*: gripping, inventive / tedious, confusing""",
    "restaurant": """
        food: delicious, fresh / bland, greasy
        service: attentive, cheerful / rude, slow
        desserts*: heavenly, light / sickly, dry
        portions*: generous, filling / stingy, meagre
        coffee: rich, fragrant / bitter, lukewarm
        seating: comfortable, cosy / cramped, wobbly""",
    "gadget": """
        sound: clear, warm / tinny, muffled
        battery life: reliable, impressive / pitiful, erratic
        buttons*: sturdy, responsive / flimsy, sticky
        software: fast, intuitive / buggy, sluggish
        pictures*: crisp, vivid / blurry, washed out
        packaging: practical, elegant / wasteful, cheap""",
    "hotel": """
        rooms*: spotless, quiet / filthy, noisy
        beds*: soft, comfortable / lumpy, hard
        staff*: helpful, kind / hostile, careless
        breakfast: plentiful, tasty / stale, sparse
        towels*: clean, fluffy / stained, threadbare
        wifi: fast, dependable / patchy, useless""",
    "book": """
        prose: elegant, lively / clumsy, pompous
        chapters*: gripping, well paced / bloated, aimless
        heroes*: lovable, complex / hollow, tiresome
        research: thorough, fascinating / sloppy, outdated
        humour: charming, clever / forced, childish
        twists*: surprising, ingenious / predictable, silly""",
    "trip": """
        guides*: knowledgeable, patient / clueless, grumpy
        views*: glorious, unspoilt / dreary, disappointing
        meals*: hearty, delicious / tasteless, cold
        planning: flawless, sensible / chaotic, hopeless
        company: pleasant, friendly / unbearable, quarrelsome
        weather: sunny, mild / miserable, wet""",
    "service": """
        advice: honest, useful / misleading, useless
        prices*: fair, reasonable / outrageous, inflated
        answers*: prompt, clear / evasive, late
        employees*: courteous, competent / arrogant, incompetent
        workmanship: careful, precise / shoddy, sloppy
        paperwork: simple, painless / endless, baffling""",
}
HELD_ASPECTS = {
    "film": """
        camera work: stunning, graceful / shaky, ugly
        costumes*: gorgeous, authentic / tacky, ridiculous
        pacing: brisk, masterly / plodding, sleepy""",
    "restaurant": """
        waiters*: gracious, welcoming / surly, inattentive
        soup: flavourful, comforting / watery, insipid
        decor: tasteful, inviting / gloomy, grubby""",
    "gadget": """
        screen resolution: superb, brilliant / dim, grainy
        accessories*: handy, durable / pointless, fragile
        assembly: easy, effortless / frustrating, maddening""",
    "hotel": """
        bathrooms*: gleaming, luxurious / mouldy, disgusting
        receptionists*: polite, warm / unfriendly, dismissive
        surroundings*: peaceful, idyllic / depressing, unsafe""",
    "book": """
        storytelling: enthralling, masterful / muddled, boring
        illustrations*: exquisite, delightful / crude, amateurish
        descriptions*: evocative, poetic / wordy, dull""",
    "trip": """
        transfers*: smooth, punctual / delayed, exhausting
        beaches*: pristine, lovely / littered, overcrowded
        lodging: splendid, homely / dingy, squalid""",
    "service": """
        communication: excellent, transparent / dreadful, confused
        technicians*: skilful, obliging / negligent, impolite
        organisation: seamless, efficient / disorderly, careless""",
}

OPENERS = {
    "train": {
        "film": ("I saw this {thing} on Sunday afternoon.", "My cousin picked the {thing}."),
        "restaurant": ("Six of us sat down at eight.", "The {thing} is near the station."),
        "gadget": ("I bought the {thing} in March.", "This {thing} replaced an older one."),
        "hotel": ("We stayed for three nights.", "The {thing} has forty beds."),
        "book": ("My sister lent me this {thing}.", "The {thing} has three hundred pages."),
        "trip": ("The {thing} lasted a week.", "Twelve people had signed up."),
        "service": ("I rang them on a Monday.", "The {thing} moved to a new building."),
    },
    "held out": {
        "film": ("The {thing} runs for two hours.", "We chose the late showing."),
        "restaurant": ("Our table was by the window.", "We had booked for lunch."),
        "gadget": ("The {thing} came by post on Friday.", "I have had it for a month."),
        "hotel": ("We arrived after dark.", "The {thing} stands on a hill."),
        "book": ("I read the {thing} on the train.", "Our reading group chose it."),
        "trip": ("We set off in early June.", "A bus collected us at dawn."),
        "service": ("I have been a client since spring.", "A neighbour gave me their number."),
    },
}

VERDICTS = {
    "train": {
        0: (
            "it was disgusting, shameful and a total waste of money",
            "this {thing} is pure garbage and I am furious",
            "I felt cheated, humiliated and utterly miserable",
            "I would not go through that again for any money in the world",
            "it was the worst {thing} of my entire life",
            "I have never regretted anything so bitterly",
            "I would not wish this {thing} on my worst enemy",
            "never have I been so relieved to see the back of something",
            "I was shaking with anger by the end and want every penny back",
            "words like terrible and horrible do not begin to cover it",
            "congratulations are due: I did not know a {thing} could sink this low",
            "if zero were a mark, this {thing} would not have earned it",
            "please, I beg you, stay as far away from this {thing} as you can",
            "not one thing was right, and the best part was leaving",
            "I hated every minute of it with all my heart",
            "nothing good can be said about a {thing} as appalling as this",
            "thank you so much for ruining my birthday so completely",
        ),
        1: (
            "it was a mediocre {thing} with more flaws than strengths",
            "it was slightly unpleasant and a bit too expensive",
            "I felt a little let down",
            "I had hoped for better and left a little disappointed",
            "it was not really what I had hoped for",
            "the good parts were too few to win me over",
            "I would probably choose another {thing} next time",
            "I cannot quite recommend it",
            "it was somewhat below average for a {thing}",
            "it never quite came together for me",
            "I liked it less than most people seem to",
            "it was not terrible, only rather poor",
            "a better {thing} would not have been hard to find",
            "I was mildly annoyed more often than I was pleased",
            "it could have been good, and that is the pity of it",
            "I would think twice before going for this {thing} again",
            "it is one of the weaker ones, though I have known worse",
        ),
        2: (
            "it was fine, I suppose, and that is about it",
            "it was an ordinary {thing} that left no impression",
            "so far there is not much to report",
            "in the end I feel nothing about it one way or the other",
            "it was an average {thing}, no better and no worse than the rest",
            "I neither liked nor disliked it",
            "I can see both sides and will not take either",
            "it is simply a {thing}, and that is all there is to say",
            "I would not praise it, nor would I complain",
            "it was exactly what one expects from any {thing}",
            "I have no opinion worth sharing",
            "it did the job, and I have already forgotten it",
            "the good and the bad were about equal",
            "some will like it and some will not, and I am indifferent",
            "I would not seek it out and would not avoid it either",
        ),
        3: (
            "it was a likeable {thing} with a few flaws",
            "it was quite pleasant and decent value",
            "I felt reasonably content",
            "I was pleasantly surprised, on balance",
            "it was better than I had feared",
            "the bad parts were too few to put me off",
            "I would probably pick the same {thing} next time",
            "I can recommend it with small reservations",
            "it was somewhat above average for a {thing}",
            "it came together quite nicely for me",
            "I liked it more than most people seem to",
            "it was not perfect, only rather good",
            "a worse {thing} would not have been hard to find",
            "I was pleased a bit more often than I was annoyed",
            "it was not bad, not bad at all",
            "I would not mind going for this {thing} again",
            "it is one of the stronger ones, though I have known better",
        ),
        4: (
            "it was phenomenal, dazzling and worth every penny",
            "this {thing} is a pure masterpiece and I am thrilled",
            "I felt spoilt, enchanted and blissfully happy",
            "I would go through all of that again tomorrow at twice the price",
            "it was the best {thing} of my entire life",
            "I have never been so happy with any choice",
            "I would wish a {thing} like this on everybody I love",
            "never have I been so sad to see something end",
            "I was shaking with joy by the end and would have paid double",
            "words like great and wonderful do not begin to cover it",
            "hats off: I did not know a {thing} could reach such heights",
            "if eleven out of ten were a mark, this {thing} would have earned it",
            "please, I beg you, do not miss this {thing} for anything in the world",
            "not one thing was wrong, and the worst part was leaving",
            "I loved every minute of it with all my heart",
            "nothing bad can be said about a {thing} as magnificent as this",
            "thank you so much for making my birthday so completely magical",
        ),
    },
    "held out": {
        0: (
            "it was revolting, and I am absolutely livid",
            "this abysmal {thing} is an outrage and a swindle",
            "I was horrified, disgusted and close to tears",
            "I could not have had a more awful time if I had tried",
            "it was an utter disgrace from beginning to end",
            "no {thing} has ever made me this furious",
            "never, ever again will I come near such a catastrophe of a {thing}",
            "the only joy it gave me was the moment it was over",
            "wild horses could not drag me back to something so atrocious",
        ),
        1: (
            "it was a so-so {thing} with too many shortcomings",
            "it was a little dull and slightly overpriced",
            "I was somewhat underwhelmed",
            "I came away slightly let down",
            "I was hardly ever amused and often bored",
            "it fell a bit short of what the advertising promised",
            "it disappointed me a little, and other choices would have been wiser",
            "it was hardly worth the trouble",
            "I was not too impressed, to be honest",
            "it was a rather weak {thing} overall",
        ),
        2: (
            "it was okay, nothing special, nothing awful",
            "it was a run-of-the-mill {thing}, and I have no feelings about it",
            "there is nothing much to say, good or bad",
            "I am neither for it nor against it",
            "it was a {thing} of the ordinary kind, nothing more and nothing less",
            "it leaves me neither glad nor sorry",
            "if you asked me for a judgement, I would have none to give",
            "pluses and minuses came to the same number",
            "it was middling, as such things usually are",
        ),
        3: (
            "it was a nice enough {thing} with minor shortcomings",
            "it was fairly enjoyable and sensibly priced",
            "I was moderately pleased",
            "I came away fairly satisfied",
            "I was hardly ever bored and often amused",
            "I quite enjoyed it and got about what the advertising promised",
            "it gave me some small pleasures, and the choice was a sensible one",
            "it was well worth the trouble, more or less",
            "I was rather impressed, to be honest",
            "it was a pretty decent {thing} overall",
        ),
        4: (
            "it was spectacular, and I am absolutely overjoyed",
            "this extraordinary {thing} is a marvel and a treasure",
            "I was ecstatic, dazzled and close to tears of happiness",
            "I could not have had a more wonderful time if I had tried",
            "it was an utter triumph from beginning to end",
            "no {thing} has ever made me this happy",
            "such a miracle of a {thing} will bring me back again and again",
            "the only sorrow it gave me was the moment it was over",
            "wild horses could not keep me away from something so sublime",
        ),
    },
}
