"""Scenes in four lines, two wordings of a thing joined by ``=``.

Who | somebody else; does what; the contrary | another act; where or when | elsewhere.
"""

SCENES = """
An old fisherman = An elderly angler | A young tourist
is mending a net = is repairing some netting
is tearing a net apart | is frying a mackerel
on the pier = at the landing stage | in a cellar

A little girl = A small child | A policeman
is feeding the ducks = is giving bread to waterfowl
is scaring the ducks away | is sailing a toy boat
by the pond = at the edge of the lake | in a farmyard

The city council = The local government | The school board
approved the tram line = gave the new tramway its consent
did not approve the tram line | raised the price of parking
this morning = a few hours ago | last spring

Two cooks = A pair of chefs | Two waiters
are chopping onions = are cutting up onions
are putting away the onions uncut | are baking a cake
in a hotel kitchen = in the galley of a hotel | at a street market

A cyclist = Somebody on a bike | A jogger
is climbing a steep hill = is toiling up a slope
is racing down a steep hill | is changing a tyre
in the rain = during a downpour | at sunset

The striker = The centre forward | The goalkeeper
scored twice = found the net two times
missed twice | was sent off
in the second half = after the interval | in a friendly last week

Several students = A group of undergraduates | Several parents
are protesting against higher fees = are demonstrating over the cost of tuition
are cheering for higher fees | are handing out free coffee
outside the library = in front of the reading hall | at the town hall

A woman = A lady | A soldier
is playing the violin = is performing on a fiddle
is no longer playing the violin | is tuning a piano
on a street corner = at a road junction | in an empty church

The airline = The flight operator | The railway company
has cancelled all departures = has called off every service
has confirmed all departures | has hired new staff
because of fog = owing to thick mist | because of a strike

A boy = A lad | A grandmother
is building a sandcastle = is making a fort out of sand
is trampling on a sandcastle | is eating an ice cream
at the beach = by the seaside | in a playground

The president = The head of state | The finance minister
signed the treaty = put a signature under the pact
did not sign the treaty | opened a hospital
on Monday = at the start of the week | in December

Three hikers = A trio of walkers | Three skiers
are resting under a tree = are taking a break in the shade of an oak
are pressing on without a rest | are studying a map
near the summit = close to the mountain top | beside a river

A mechanic = A garage worker | A teenager
is fixing an engine = is repairing a motor
is wrecking an engine | is washing a van
in the workshop = at the garage | on a farm

The museum = The gallery | The theatre
will reopen its doors = is going to welcome visitors again
will not reopen its doors | will sell a famous painting
next summer = in June or July | on Friday

A black horse = A dark stallion | A spotted cow
is jumping over a fence = is leaping across a barrier
is standing still behind a fence | is drinking from a bucket
in a meadow = on a grassy field | at a circus

Firefighters = Fire crews | Volunteers
saved a family from a fire = rescued parents and children from a burning home
could not save a family from a fire | were testing a new ladder
on a stormy night = on a night of strong wind | during the heatwave

An author = A novelist | A politician
is reading from a new book = is presenting a fresh novel aloud
is not reading from a new book | is signing autographs
in a crowded shop = in a packed bookstore | on the radio

The patient = The sick man | The doctor
recovered quickly = got well in a short time
grew steadily worse | asked for another pillow
after the operation = following surgery | over the holidays

Some children = A few kids | Some pensioners
are dancing to loud music = are moving to a noisy song
are not dancing to the loud music | are painting masks
in the gym = in the sports hall | at a wedding

Oil prices = The cost of crude | House prices
rose sharply = climbed steeply
fell sharply | were debated by experts
this week = over the last few days | in the past decade

A gardener = A man with a spade | A nun
is planting roses = is putting rose bushes into the soil
is digging out roses | is raking leaves
behind the palace = at the rear of the castle | along the motorway

The company = The firm | The charity
hired fifty people = took on half a hundred workers
dismissed fifty people | moved into a glass tower
last month = four weeks ago | before the war

A tired driver = A weary motorist | A nervous passenger
fell asleep = dozed off
did not fall asleep | spilled some tea
on the motorway = on the highway | at the border

The orchestra = The symphony players | The choir
finished the concert early = ended the performance ahead of time
played far longer than planned | practised a waltz
in Vienna = in the Austrian capital | at a village fair

A scientist = A researcher | A journalist
has found a new kind of frog = has discovered an unknown frog species
has found no new kind of frog | has photographed a volcano
in the rainforest = in the jungle | in a museum drawer

Police officers = Members of the police | Customs agents
arrested a thief = took a burglar into custody
let a thief escape | were directing the traffic
at the station = on a railway platform | in a quiet suburb

A farmer = A man who works the land | A tourist
is milking the cows = is drawing milk from the herd
is selling off the cows | is driving a tractor
before dawn = ahead of sunrise | in the afternoon

The bridge = The river crossing | The tunnel
was closed to lorries = was barred for trucks
was opened to lorries | was painted green
after the storm = in the wake of the gale | for the festival

A tall man = A man of great height | A toddler
is washing the windows = is cleaning the panes
is smearing dirt on the windows | is hanging curtains
on the top floor = right under the roof | in a barn

My neighbours = The people next door | My colleagues
bought a sailing boat = purchased a yacht
sold a sailing boat | learned to scuba dive
two years ago = the year before last | yesterday

A young mother = A woman with a small child | A businessman
is pushing a pram = is wheeling a baby carriage
is pulling a pram backwards | is reading the news
through the park = across the public garden | along a busy road

The old bakery = The ancient bread shop | The butcher
raised its prices = made everything more expensive
lowered its prices | sponsored a football match
in January = in the first month of the year | during the summer

Two boys = A couple of lads | Two grandfathers
are playing chess = are having a game of chess
have stopped playing chess | are sharing a pizza
in the school yard = on the school grounds | on a night train

A painter = An artist | A photographer
is drawing a portrait = is sketching somebody's face
is rubbing out a portrait | is cleaning some brushes
at the window = beside the window pane | in a prison cell

The minister = The member of government | The singer
resigned = stepped down from office
refused to resign | visited a steel mill
after the scandal = following the affair | on a Sunday

A brown bear = A large bear | A wild boar
is catching a salmon = is grabbing a fish
is letting a salmon escape | is scratching its back on a tree
in the river = in the stream | in a zoo

The teacher = The schoolmistress | The librarian
is explaining a sum = is making an arithmetic problem clear
is skipping a sum without explanation | is closing the blinds
to the class = to the pupils | to a visitor

A sailor = A seaman | A scout
is tying a rope = is knotting a line
is untying a rope | is peeling potatoes
on the deck = on board the ship | in a tent

Our train = The train we took | Our plane
arrived late = came in behind schedule
arrived early | carried a wedding party
on account of snow = due to heavy snowfall | because of a power cut

The villagers = The people of the village | The soldiers
are building a well = are constructing a water hole
are filling in a well | are celebrating a wedding
near the church = close to the chapel | in the desert

A thief = A robber | A ghost
stole a necklace = took a necklace without paying
gave a necklace back | was hiding behind a curtain
from the jeweller's shop = out of the jewellery store | at a costume party

The judge = The magistrate | The referee
believed the young man = took the young man at his word
did not believe the young man | ate a sandwich
during the hearing = in the courtroom session | after the match

A plumber = A man who fits pipes | A nurse
is repairing the shower = is fixing the shower
is breaking the shower | is writing an invoice
in the basement = in the cellar | in a caravan

Some tourists = A few holidaymakers | Some locals
are photographing the castle = are taking pictures of the fortress
are ignoring the castle | are buying postcards
from a boat = from on board a vessel | at midnight

The dog = The hound | The baby
is sleeping = is taking a nap
is wide awake | is chewing a slipper
on the sofa = on the couch | under the table

The hospital = The clinic | The prison
needs more nurses = is short of nursing staff
has too many nurses | got a new roof
this winter = in the cold season | every weekend
"""

HELD_SCENES = """
A young couple = A boy and his girlfriend | Two monks
are painting a wall = are giving a wall a coat of colour
are scrubbing the paint off a wall | are unpacking boxes
in an empty flat = in a vacant apartment | at a kindergarten

The mayor = The head of the town | The bishop
opened the new library = inaugurated the new library building
shut the new library down | praised the volunteers
at noon = at twelve o'clock | in late autumn

A waitress = A woman serving tables | A clown
is carrying a tray of glasses = is bringing drinks on a tray
is dropping a tray of glasses | is writing down an order
on the terrace = out on the patio | on a train

The team = The squad | The coach
won the trophy = took home the cup
lost the final and the trophy | flew to a training camp
in a thrilling season = over some exciting months | before the war

Two elephants = A pair of elephants | Two camels
are bathing = are taking a bath
are avoiding the water | are pulling a cart
in a muddy river = in a brown stream | at the zoo

A tailor = A dressmaker | A student
is sewing a wedding gown = is stitching a bridal dress
is ripping a wedding gown apart | is measuring a customer
in a tiny shop = in a very small store | at home

The volcano = The mountain of fire | The geyser
erupted = spewed ash and lava
did not erupt | attracted many visitors
last night = yesterday evening | a century ago

A postman = A mail carrier | A salesman
is delivering a parcel = is bringing a package
is taking a parcel away | is petting a dog
at the front door = at the main entrance | in a harbour

The court = The judges | The jury
released the banker = let the banker go
did not release the banker | heard two witnesses
on appeal = in the second trial | behind closed doors

Some surfers = A few wave riders | Some divers
are waiting for a big wave = are hoping that a large wave comes
are fleeing from a big wave | are waxing boards
off the coast = out at sea | in a hotel lobby

The factory = The plant | The farm
doubled its output = produced twice as much
halved its output | received a safety award
this year = in the past twelve months | during the crisis

A beggar = A homeless man | A rich widow
thanked a stranger = expressed gratitude to a passer-by
insulted a stranger | was counting coins
outside the bank = in front of the savings bank | on the underground
"""

# Who may act on whom: two parties, the act, the same act in other words, the act undergone.
ROLES = """
the dog, the cat: is chasing, is running after, is being chased by
the teacher, the pupil: is helping, is giving a hand to, is being helped by
the nurse, the doctor: is calling, is phoning, is being called by
the red car, the bus: is overtaking, is passing, is being overtaken by
the wrestler, the boxer: is pushing, is shoving, is being pushed by
the queen, the ambassador: is greeting, is saying hello to, is being greeted by
the lawyer, the witness: is interrupting, is cutting off, is being interrupted by
the guide, the tourist: is following, is walking behind, is being followed by
the singer, the drummer: is praising, is complimenting, is being praised by
the sister, the brother: is teasing, is making fun of, is being teased by
the goose, the fox: is watching, is keeping an eye on, is being watched by
the actor, the director: is paying, is giving money to, is being paid by
"""

HELD_ROLES = """
the lion, the hyena: is attacking, is going for, is being attacked by
the bride, the groom: is kissing, is giving a kiss to, is being kissed by
the clerk, the manager: is accusing, is putting the blame on, is being accused by
the sailor, the captain: is hugging, is embracing, is being hugged by
the boy, the girl: is carrying, is lifting, is being carried by
"""
