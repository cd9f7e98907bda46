"""Questions written out: three ways to ask the same thing, then near misses marked with ``!``."""

Group = tuple[list[str], list[str]]


def parse(text: str) -> list[Group]:
    """Ways to ask and near misses of each group; an empty line ends a group."""
    groups = [block.splitlines() for block in text.strip().split("\n\n")]
    return [
        (
            [line for line in group if not line.startswith("! ")],
            [line.removeprefix("! ") for line in group if line.startswith("! ")],
        )
        for group in groups
    ]


GROUPS = parse("""
How can I sleep better at night?
What helps with getting a good rest after bedtime?
Which habits lead to deeper sleep?
! How can I stay awake better at night?
! How can I help my baby sleep in a cot?

Why do cats purr?
What is the reason that cats make a purring sound?
What causes the humming noise of a contented cat?
! Why do cats not purr when they sleep?
! Why do cats scratch?

How do I quit my job without burning bridges?
What is a graceful way of resigning?
How can I hand in my notice and stay on good terms?
! How do I find a job without knowing anybody?
! How do I keep my job without pleasing everybody?

Is it safe to drink tap water in a foreign country?
Can travellers abroad trust the water from the tap?
Will I get sick from tap water on holiday overseas?
! Is it safe to swim in a lake in a foreign country?
! Is it legal to sell tap water in a foreign country?

How can I lose weight without exercise?
Is it possible to slim down while doing no sport?
What is a way of shedding kilos if I never work out?
! How can I exercise without losing weight?
! How can I gain weight without exercise?

What should I wear to a job interview?
Which clothes are right for meeting a future employer?
How does one dress for an interview at a company?
! What should I ask at a job interview?
! What should I not wear to a wedding?

How do I learn to play the guitar on my own?
Can I teach myself guitar, and how?
What is the best way to master the guitar with no teacher?
! How do I teach my son to play the guitar?
! How do I learn to build a guitar on my own?

Why is the sky blue during the day?
What gives the daytime sky its blue colour?
How come the sky looks blue while the sun is up?
! Why is the sky red in the evening?
! Why is the sea blue during the day?

How much money should I save before I retire?
What sum is needed for a comfortable old age?
How big do my savings have to be when I stop working?
! How much money should I spend before I retire?
! At what age should I start saving to retire?

How can I make my computer start faster?
What shortens the boot time of a PC?
My machine takes ages to power up; how do I speed it up?
! How can I make my computer shut down faster?
! How can I make my car start in the cold?

What happens if I do not pay my taxes on time?
What are the consequences of late tax payments?
Which penalty follows when one misses the tax deadline?
! What happens if I pay my taxes before they are due?
! What happens if I do not pay my rent on time?

How do I remove a scratch from a wooden table?
What gets rid of scrape marks on timber furniture?
My oak desk is scratched; how can that be repaired?
! How do I remove a wooden table from a flat?
! How do I remove a scratch from a glass table?

Can I take food on a plane?
Are passengers allowed to bring their own snacks aboard a flight?
Is it permitted to carry something to eat onto an aircraft?
! Can I buy food on a plane?
! Can I take a pet on a plane?

How do I become more confident when I speak in public?
What helps against stage fright during a talk?
How can I overcome my fear of addressing an audience?
! How do I become more careful when I speak in public?
! How do I hear better when others speak in public?

What is the cheapest way to send a parcel abroad?
How can I ship a package overseas for little money?
Which carrier charges least for international parcels?
! What is the fastest way to send a parcel abroad?
! What is the cheapest way to receive a call abroad?

Do I need a visa to visit my family in Canada?
Are entry papers required for seeing relatives in Canada?
Must I apply for permission before a family visit to Canada?
! Do I need a visa to work in Canada?
! Does my family in Canada need a visa to visit me?

Why does bread go stale so quickly?
What makes a loaf turn hard after a day?
For what reason does bread lose its freshness so soon?
! Why does bread rise so quickly?
! How can stale bread be used?

How can I tell if an egg is still fresh?
Is there a test that shows whether eggs have gone off?
How do you check that eggs are good to eat?
! How can I tell if an egg is fully boiled?
! How can I keep an egg fresh?

What should I do when my child refuses to eat vegetables?
How do I get a picky toddler to accept greens?
My kid will not touch vegetables; how should I react?
! What should I do when my child refuses to go to school?
! Which vegetables should a child not eat?

How do I end a friendship politely?
What is a kind way of telling a friend that we should part?
How can I break off contact with a pal and not be rude?
! How do I start a friendship politely?
! How do I end a letter politely?

Are electric cars better for the environment than diesel ones?
Do battery vehicles harm nature less than diesel vehicles?
Is driving on electricity greener than burning diesel?
! Are diesel cars better for the environment than electric ones?
! Are electric cars cheaper to run than diesel ones?

How do I recover a deleted photo?
Is there a way to get back a picture that I erased?
Can an image be restored after I removed it by mistake?
! How do I delete a recovered photo?
! How do I send a photo by mail?

Who pays for repairs in a rented flat?
Is it the landlord or the tenant who covers damage?
Whose job is it to pay when something breaks in a rental?
! Who pays for heating in a rented flat?
! Who is allowed to enter a rented flat?

How often should I water a cactus?
How much time should pass between waterings for a cactus?
At what intervals does a cactus need water?
! How often should I repot a cactus?
! How often should I water a lawn?

Why do we dream?
What purpose do dreams serve?
What is the function of the images we see while asleep?
! Why do we forget our dreams?
! Why do we sleep?

Can I train for a marathon in three months?
Are twelve weeks enough to prepare for a marathon?
Is it realistic to get ready for a 42-kilometre race in a quarter of a year?
! Can I train for a marathon in three weeks?
! Can I run three marathons in a month?

What is a good gift for someone who has everything?
What can I give a person who already owns all they want?
Any present ideas for people who lack nothing?
! What is a good gift for someone who has nothing?
! What is a good meal for someone who cooks everything?

How do I ask my boss for a raise?
What is the right way to request higher pay from a manager?
How can I bring up a salary increase with my employer?
! How do I ask my boss for a day off?
! How does my boss decide who gets a raise?

Is coffee bad for the heart?
Does drinking coffee harm one's cardiac health?
Can too many espressos damage the heart?
! Is coffee good for the heart?
! Is coffee bad for the teeth?

How do I fix a dripping tap?
What can be done about a leaking faucet?
Water keeps trickling from my tap; how is it repaired?
! How do I install a new tap?
! How do I fix a dripping roof?

Should I rent or buy a home?
Is purchasing a house wiser than being a tenant?
Which is smarter, owning property or paying rent?
! Should I sell or let my home?
! Should I rent a home before I buy a car?

How do bees make honey?
By what process is honey produced in a hive?
What do bees do to turn nectar into honey?
! How do people harvest honey?
! Why do bees make honey?

How can I read more books in a year?
What helps to get through a larger number of books?
How do I increase the amount that I read annually?
! How can I write more books in a year?
! How can I remember more of the books I read in a year?

What is the penalty for driving without a licence?
How are people punished who drive but hold no licence?
Which fine awaits an unlicensed driver?
! What is the price of a driving licence?
! What is the penalty for driving without a seat belt?

How do I keep wasps away from my balcony?
What repels wasps from a terrace?
How can I eat outside and not be bothered by wasps?
! How do I keep pigeons away from my balcony?
! How do I keep my balcony free of snow?

Why did the Roman Empire fall?
What brought about the collapse of ancient Rome?
Which factors led to the end of the Roman state?
! Why did the Roman Empire grow?
! When did the Roman Empire fall?

How can I use less plastic at home?
What are ways of cutting down on plastic in the household?
How does a family reduce its plastic consumption?
! How can I use plastic at home for crafts?
! How can I use less power at home?

Can two people share one bank account?
Is it possible to hold an account jointly?
May a couple have a single account at a bank?
! Can one person have two bank accounts?
! Can two banks share one customer?

How do I get rid of the smell of paint in a room?
What helps against paint odour after decorating?
My bedroom reeks of fresh paint; how can I air it?
! How do I choose the colour of paint for a room?

Is it worth paying extra for travel insurance?
Does it make sense to insure a holiday?
Should I spend money on cover for my trip?
! Is it worth paying extra for a window seat?

How can I find out who called me from a hidden number?
Is there a way to identify an anonymous caller?
Someone rang me and withheld the number; how do I learn who it was?
! How can I hide my number when I call someone?

What makes people yawn?
Why do humans yawn at all?
What triggers the urge to open our mouths wide when tired?
! What makes people sneeze?

How do I train my memory for names?
What is a trick for remembering what people are called?
I always forget names; how can I get better at it?
! How do I find a name for my baby?

Can I return shoes that I have already worn?
Will a shop take back used footwear?
Is it possible to get a refund for sneakers after wearing them?
! Can I return shoes that I bought online?

How do I stop my glasses from fogging up?
What prevents mist on spectacle lenses?
My lenses steam over in winter; what can I do?
! How do I stop my glasses from sliding down?

What is the quickest way to ripen bananas?
How can I make green bananas turn yellow sooner?
Is there a method to speed up the ripening of bananas?
! What is the quickest way to mash bananas?

How many hours a week do students work on average?
What is the typical weekly workload at university?
How much time does the usual student spend on coursework in seven days?
! How many weeks a year do students have off?

Where can I donate old clothes?
Who accepts used garments as a gift?
Which places take clothing that I no longer wear?
! Where can I buy old clothes?
""")

HELD_GROUPS = parse("""
How do I get chewing gum out of my hair?
What removes sticky gum from hair?
My daughter has gum stuck in her locks; how can I take it out?
! How do I get paint out of my hair?
! How do I keep chewing gum out of my school?

Why do leaves change colour in autumn?
What turns foliage red and yellow in the fall?
For what reason do trees lose their green each October?
! Why do leaves change shape in strong sun?
! Why do leaves not change colour on pine trees?

How can I save on my heating bill?
What lowers the cost of keeping a house warm?
How do I spend less on heating in winter?
! How can I pay my heating bill?
! How can I repair my heating?

Is it rude to leave a tip in Japan?
Do the Japanese take offence when guests tip?
Would tipping be considered impolite in Japan?
! Is it rude to leave no tip in France?
! Is it rude to leave early in Japan?

How do I teach an old dog new tricks?
Can an elderly dog still be trained, and how?
What is the way to train a dog that is no longer young?
! How do I teach a puppy its name?
! How do I learn new card tricks?

What should a beginner invest in?
Where should someone new to investing put their money?
Which assets suit a first-time investor?
! What should a beginner not invest in?
! What should an expert read on investing?

How can I stop biting my nails?
What helps to break the habit of chewing one's fingernails?
I nibble at my nails; how do I give it up?
! How can I stop my nails from splitting?
! How can I stop my dog biting my shoes?

Can I work while I study abroad?
Are foreign students allowed to hold a job?
Is it legal to be employed during a degree in another country?
! Can I study while I work abroad?
! Can I live with my parents while I study?

Why is my internet so slow in the evening?
What makes my web connection lag after dinner time?
How come the internet loads sluggishly at night?
! Why is my internet so expensive?
! Why is my computer so hot in the evening?

How do I write a good cover letter?
What makes a letter of application convincing?
Any advice on composing a strong cover letter?
! How do I write a good love letter?
! How do I send a cover letter by mail?

How old must a child be to stay home alone?
From what age may kids be left without a sitter?
At which age can a youngster be at home unsupervised?
! How old must a sitter be to look after a child?
! How long may a dog stay home alone?

What is the best way to peel garlic?
How do I get the skin off garlic cloves easily?
Is there a quick trick to remove garlic peel?
! What is the best way to chop garlic?
! What is the best way to grow garlic?

Who invented the bicycle?
Which person came up with the first bike?
By whom was the bicycle devised?
! Who invented the motorcycle?
! When was the bicycle invented?

Does reading in dim light damage the eyes?
Can poor lighting while reading ruin one's vision?
Is it harmful for eyesight to read in the dark?
! Does reading on a screen in bed harm sleep?
! Does wearing glasses damage the eyes?
""")
