"""Questions about documents, after the four workloads of [SDNPU 5.1]: summaries, answers from passages, scripts for a
user interface, replies to messages.

A question says how to answer.  A document tells facts about something with a made-up name, in forms and words drawn at
random.  An answer tells some of these facts again, at one of three distances:

    copied     the document's own sentences
    lightly    the same forms in the words of one house style: other synonyms, left-out or added words
    heavily    other forms

Seeds below 10**9 are for training, from 10**9 on for tests: a name is of one side only (by its hash), so no document or
question is on both.  `make(seed)` is a function of the seed alone; seed % 4 is the task, seed // 4 % 3 the distance.

usage: reader.py OUT.jsonl [--each 20]      so many of each task at each distance, and as many exchanges of others
                                            before them
       reader.py --check FILE               exit 1 unless FILE is byte for byte what would be written, and no document
                                            or question of it is among the first training examples; says how many were
                                            compared
"""
import argparse
import json
import random
import re
import sys
import zlib

FIRST_TEST_SEED = 10 ** 9
FIRST_PAST_SEED = FIRST_TEST_SEED + 10 ** 8  # exchanges that a store holds already; of the test's side, too
N_COMPARED = 6_000
TASKS = ("summary", "rag", "ui", "reply")
STYLES = {"copied": "Quote the passages.", "lightly": "Use plain words.", "heavily": "Use words of your own."}
DISTANCES = tuple(STYLES)
N_TOKENIZER, MAX_NEW = 1000, 300  # train.py: examples that the tokenizer learns from; tokens of the longest answer

# ---- forms: [a|b|c] is drawn for a document and its first word is the house style's; {x} is a value ----

MONTHS = "January February March April May June July August September October November December".split()
COLOURS = "red blue green white black yellow grey orange brown purple".split()
WEATHER = "rain snow fog storms heat frost wind".split()
FOODS = "soup bread apples pancakes dumplings noodles pies cheese honey fish plums berries".split()
MATERIALS = "oak steel glass brick granite copper slate bamboo concrete wool".split()
TOOLS = "lamps maps radios ropes tents bicycles drums cameras ladders kites boats pumps".split()
JOBS = "engineer teacher baker painter nurse farmer pilot tailor gardener carpenter librarian surveyor".split()


def day(r):
    return f"{r.choice(MONTHS)} {r.randint(1, 28)}"


def number(low, high):
    return lambda r: str(r.randint(low, high))


def pick(*lists):
    return lambda r: " ".join(r.choice(words) for words in lists)


def person(r, test):
    return f"{name(r, test)} {name(r, test)}"


NAME, PERSON = "name", "person"  # values of one side of the split

# Each fact: values, forms of documents, the form of a heavily rephrased answer, the question.
DOMAINS = {
    "festival": [
        (dict(d=day, y=number(1890, 2020)),
         ["[The festival|It|The event] was [founded|started|first held] [on|back on] {d}, {y}.",
          "[Its|The festival's] [first|very first] [edition|year] [took place|was held|happened] on {d}, {y}."],
         "People have celebrated it since {y}, and the opening fell on {d}.", "When was {s} founded?"),
        (dict(n=number(300, 90000)),
         ["[About|Around|Roughly] {n} [visitors|guests|people] [come|travel|make their way] [there|to it] [each|every] year.",
          "Each year [it|the festival] [draws|attracts|brings in] [about|some|nearly] {n} [visitors|people|guests]."],
         "The crowd counts {n} heads in a usual year.", "How many visitors come to {s}?"),
        (dict(f=pick(COLOURS, FOODS), p=PERSON),
         ["[The most|Its most] [famous|popular|beloved] dish is {f}, [made|cooked|prepared] by {p}.",
          "{p} [cooks|prepares|serves] {f}, [which is the most famous dish|the dish everybody talks about]."],
         "For the best known food, {f}, one has to thank {p}.", "Who makes the most famous dish of {s}?"),
        (dict(t=pick(TOOLS), m=pick(MATERIALS), n=number(12, 400)),
         ["[The parade|A parade] [shows|presents|features] {n} {t} [made|built] of {m}.",
          "In [the|its] parade {n} {t} of {m} are [carried|shown|pulled] through the [streets|town]."],
         "Marchers bring along {n} {t}, all of them from {m}.", "What does the parade of {s} show?"),
        (dict(c=NAME, k=number(2, 60)),
         ["[It|The festival] is [held|celebrated|organised] in {c}, {k} km [from|away from|outside] the [coast|sea].",
          "[Its home|The place] is {c}, a town {k} km [from|off] the [coast|sea]."],
         "The host is a town {k} km inland that goes by {c}.", "Where is {s} held?"),
        (dict(w=pick(WEATHER), y=number(1950, 2022)),
         ["In {y} [it|the festival] was [cancelled|called off] [because of|due to|on account of] {w}.",
          "[Heavy|Severe] {w} [forced|made] the [organisers|committee] to cancel [it|the festival] in {y}."],
         "Nothing happened in {y}: {w} came first.", "Why was {s} cancelled once?"),
        (dict(p=PERSON, j=pick(JOBS)),
         ["[The committee|The board] is [led|headed|chaired] by {p}, [a|a retired|a former] {j}.",
          "{p}, [who used to work as a|once a] {j}, [leads|chairs|heads] the [committee|board]."],
         "At the top of the board sits {p}, by trade a {j}.", "Who leads the committee of {s}?"),
        (dict(n=number(3, 45)),
         ["[A ticket|Entry|One ticket] [costs|is] {n} [euros|euros at the gate].",
          "[Visitors|Guests] [pay|have to pay] {n} euros [for a ticket|to get in|at the gate]."],
         "Whoever wants in leaves {n} euros at the door.", "What does a ticket to {s} cost?"),
    ],
    "device": [
        (dict(c=NAME, y=number(1998, 2024)),
         ["[The device|It] was [released|launched|brought to market] [by|by the company] {c} in {y}.",
          "{c} [released|launched|presented] [the device|it] in [the year|early|late] {y}."],
         "It has been on sale since {y}; the maker is {c}.", "Who released {s}, and when?"),
        (dict(h=number(4, 90), n=number(15, 240)),
         ["[Its|The] battery [lasts|runs] for {h} hours and [charges|is full] in {n} minutes.",
          "[After|With] {n} minutes of charging [it|the battery] [lasts|works|runs] [for|for about] {h} hours."],
         "One charge, which takes {n} minutes, buys {h} hours of work.", "How long does the battery of {s} last?"),
        (dict(g=number(80, 4200), m=pick(MATERIALS)),
         ["[It|The device] [weighs|has a weight of] {g} grams and has a [case|body|shell] of {m}.",
          "[The|Its] {m} [case|shell|body] [keeps|holds] the weight [at|down at] {g} grams."],
         "On the scales it shows {g} grams, its outside being {m}.", "How much does {s} weigh?"),
        (dict(n=number(19, 1900)),
         ["[It|The device] [costs|sells for|is sold at] {n} euros [in shops|in most shops|online].",
          "[Shops|Dealers] [ask|want|charge] {n} euros [for it|for the device]."],
         "The price tag reads {n} euros.", "What does {s} cost?"),
        (dict(c=pick(COLOURS), d=pick(COLOURS), k=number(2, 9)),
         ["[A|The] {c} [light|lamp] [blinks|flashes] {k} times [when|as soon as|once] an update is [ready|available].",
          "When an update is [ready|available], the {c} [light|lamp] [flashes|blinks] {k} times."],
         "New software announces itself with {k} {c} blinks.", "How does {s} show an update?"),
        (dict(n=number(2, 60), t=pick(TOOLS)),
         ["[Up to|At most] {n} {t} can be [connected|paired|linked] [to it|with it] at the same time.",
          "[It|The device] [connects|links|pairs] [up to|as many as] {n} {t} at [once|the same time]."],
         "There is room for {n} {t} in its network.", "How many {t} can be connected to {s}?"),
        (dict(p=PERSON, n=number(6, 70)),
         ["{p} [designed|drew|developed] [it|the device] [within|in] {n} weeks.",
          "[It|The device] was [designed|developed] by {p} in [just|only|about] {n} weeks."],
         "The drawings came from {p}, after {n} weeks of work.", "Who designed {s}?"),
        (dict(b=number(2, 9), w=number(5, 30)),
         ["To [reset|restart] it, [press|push|hold] button {b} for {w} seconds.",
          "[Hold|Press|Push] button {b} [for|for at least] {w} seconds to [reset|restart] [it|the device]."],
         "A reset needs {w} seconds on button {b}.", "How is {s} reset?"),
    ],
    "trail": [
        (dict(k=number(3, 90), h=number(2, 30)),
         ["[The trail|It|The path] is {k} km long and [takes|needs] [about|roughly|some] {h} hours.",
          "[Walkers|Hikers] [need|take] [about|around] {h} hours for [the|its] {k} km."],
         "Count on {h} hours of walking for a distance of {k} km.", "How long is {s}?"),
        (dict(a=NAME, b=NAME),
         ["[It|The trail] [leads|runs|goes] from {a} [to|down to|up to] {b}.",
          "[The trail|The path] [starts|begins] in {a} and [ends|finishes] in {b}."],
         "Set out at {a}, and {b} is where you arrive.", "Where does {s} lead?"),
        (dict(m=number(600, 4100), p=NAME),
         ["[The highest point|Its highest point] is [Mount|the top of] {p} [at|with] {m} metres.",
          "At {m} metres, [Mount|the top of] {p} is [the highest point|the highest place] [of it|on the way]."],
         "Nothing on the way rises above the {m} metres of {p}.", "What is the highest point of {s}?"),
        (dict(a=pick(MONTHS[2:6]), b=pick(MONTHS[8:11]), w=pick(WEATHER)),
         ["[It|The trail] is [open|free] from {a} to {b}; [in winter|in the other months] {w} [closes|blocks] it.",
          "From {a} to {b} [the trail|it] is [open|passable], [then|after that] {w} [blocks|closes] [it|the way]."],
         "Because of {w} one should come between {a} and {b}.", "When is {s} open?"),
        (dict(n=number(1, 14), m=pick(MATERIALS), x=number(8, 120)),
         ["There are {n} [huts|shelters] [of|built of|made of] {m} with {x} [beds|places] [in all|altogether].",
          "{n} {m} [huts|shelters] [offer|have] {x} [beds|places] for [the night|walkers]."],
         "A walker may sleep in {x} beds, in {n} houses of {m}.", "How many huts has {s}?"),
        (dict(c=pick(COLOURS), d=pick(COLOURS)),
         ["[The way|It] is [marked|signed] with {c} [and|on] {d} [signs|stripes|arrows].",
          "[Follow|Look for] the {c} and {d} [signs|arrows|stripes] [on the trees|along the way]."],
         "Paint in {c} and {d} shows where to go.", "How is {s} marked?"),
        (dict(p=PERSON, y=number(1880, 2015)),
         ["{p} [laid|built|planned] [it|the trail] in {y}.",
          "[It|The trail] was [laid|planned|built] in {y} by {p}."],
         "We owe the route to {p}, who worked on it in {y}.", "Who laid {s}?"),
        (dict(f=pick(FOODS), n=number(3, 18), k=number(1, 20)),
         ["At kilometre {k} a [farm|small farm] [sells|offers] {f} for {n} euros.",
          "A [farm|small farm] at kilometre {k} [offers|sells|serves] {f} [for|at] {n} euros."],
         "Hungry people find {f} for {n} euros where {k} km are done.", "What does the farm on {s} sell?"),
    ],
    "project": [
        (dict(p=PERSON, j=pick(JOBS)),
         ["[The project|It|The team] is [led|run|managed] by {p}, [a|a trained] {j}.",
          "{p}, [a|a trained] {j}, [leads|runs|manages] [the project|it|the team]."],
         "Its head, {p}, once learnt to be a {j}.", "Who leads {s}?"),
        (dict(d=day, n=number(3, 40)),
         ["[Work|The work] [began|started] on {d} and [will take|is planned for] {n} [months|months in all].",
          "[It|The project] [started|began] on {d}; {n} months are [planned|needed]."],
         "Having begun on {d}, it is due {n} months later.", "When did work on {s} begin?"),
        (dict(n=number(10, 980), m=number(2, 90)),
         ["The [budget|whole budget] is {n} thousand euros, of which {m} thousand [are|have been] [spent|used up].",
          "Of [the|a] budget of {n} thousand euros, {m} thousand [are|have been] [spent|used]."],
         "So far {m} thousand of {n} thousand euros are gone.", "What is the budget of {s}?"),
        (dict(c=NAME, t=pick(TOOLS), k=number(20, 900)),
         ["[The goal|Its goal|The aim] is to [bring|send|deliver] {k} {t} to {c}.",
          "{c} [is to get|will get|is waiting for] {k} {t} [from the project|from it]."],
         "When all is done, {k} more {t} will be in {c}.", "What is the goal of {s}?"),
        (dict(d=day, p=PERSON),
         ["The next [meeting|review] is on {d} [with|together with] {p}.",
          "{p} [joins|will join] the next [meeting|review] on {d}."],
         "Keep {d} free: {p} is coming to talk.", "When is the next meeting of {s}?"),
        (dict(w=pick(WEATHER), n=number(2, 30)),
         ["{w} [delayed|held up|slowed down] [the work|everything] by {n} days.",
          "[The work|Everything] is {n} days [late|behind] [because of|due to] {w}."],
         "The calendar slipped by {n} days, and {w} is to blame.", "What delayed {s}?"),
        (dict(n=number(3, 80), c=NAME),
         ["[The team|The staff] has {n} [members|people], [most|many] of them from {c}.",
          "{n} people [work|are working] [on it|in the team], [many|most] of them [come from|from] {c}."],
         "{c} sends most of the {n} heads at work.", "How many people work on {s}?"),
        (dict(m=pick(MATERIALS), x=pick(MATERIALS)),
         ["[Instead of|In place of] {m}, [the team|they] [use|work with] {x}.",
          "[They|The team] [chose|took] {x} [instead of|in place of|rather than] {m}."],
         "{x} has taken the place of {m}.", "What does the team of {s} use instead of another material?"),
    ],
}
FILLERS = [
    "[Many|Most|Some] [people|readers] [ask|have asked] about it [lately|in the last weeks].",
    "[There|Here] is [more|much more] to [say|tell] than [fits|can stand] on a page.",
    "[Nobody|No one] [expected|had expected] [so much|this much] [interest|attention].",
    "[A|The local] newspaper [wrote|reported] about it [twice|more than once|last spring].",
    "[Photos|Pictures] can be [found|seen] in the [library|archive|town hall].",
    "[The details|All details] [may|might] [change|still change] [next year|later].",
    "[It|This] is [well|quite well] known in the [region|whole region|area].",
]
OPENERS = ["{s} is a {k} that [many|most people|a lot of people] [know|have heard of].",
           "[This page|This note|The following] is about {s}, a {k}.",
           "[What|All that] we know [about|of] the {k} {s} [is|stands] [here|below]."]


def name(r, test):
    """A made-up word of the right side of the split."""
    while True:
        syllables = [r.choice("b d f g h k l m n p r s t v w z br dr gl kr pl st tr".split()) +
                     r.choice("a e i o u ai ea ou".split()) for _ in range(r.randint(2, 3))]
        word = ("".join(syllables) + r.choice(["", "n", "r", "l", "s", "th", "nd"])).capitalize()
        if (zlib.crc32(word.encode()) % 8 == 0) == test:
            return word


def say(form, values, r=None):
    """A form in words: drawn, or without r those of the house style."""
    text = re.sub(r"\[([^]]*)\]", lambda m: r.choice(m[1].split("|")) if r else m[1].split("|")[0], form)
    text = text.format(**values)
    return text[0].upper() + text[1:]


class Subject:
    """Something with a name, and what a document says about it."""

    def __init__(self, r, test, n_fact, kind=None):
        self.kind = kind or r.choice(sorted(DOMAINS))
        self.name = f"{name(r, test)} {name(r, test)}"
        self.facts = []
        for values, forms, other, question in r.sample(DOMAINS[self.kind], n_fact):
            v = {k: name(r, test) if f == NAME else person(r, test) if f == PERSON else f(r) for k, f in values.items()}
            v["s"], form = self.name, r.choice(forms)
            self.facts.append(dict(copied=say(form, v, r), lightly=say(form, v), heavily=say(other, v),
                                   question=question.format(**v)))
        self.opener = say(r.choice(OPENERS), dict(s=self.name, k=self.kind), r)

    def tell(self, r, n_filler):
        """A document: its facts in order, fillers and paragraphs between them."""
        lines = [f["copied"] for f in self.facts]
        for form in r.sample(FILLERS, n_filler):
            lines.insert(r.randint(0, len(lines)), say(form, {}, r))
        lines.insert(0, self.opener)
        text = lines[0]
        for line in lines[1:]:
            text += r.choice([" ", " ", " ", "\n\n"]) + line
        return text


# ---- the four tasks: documents, and a function of the distance that asks for something in them: (question, answer) ----

def summary(r, test):
    s = Subject(r, test, 8)
    document = s.tell(r, r.randint(1, 5))
    if r.random() < 0.5:
        document += "\n\n" + Subject(r, test, r.randint(5, 8)).tell(r, r.randint(0, 4))

    def ask(distance):
        told = s.facts[:r.randint(3, 6)]
        return f"Summarize what is known about {s.name}.", " ".join(f[distance] for f in told)
    return [document], ask


def rag(r, test):
    about = Subject(r, test, 8)
    alike = not test and r.random() < 0.4  # so training has half of its pairs of one kind, tests a quarter
    other = Subject(r, test, 8, about.kind if alike else None)
    documents = [s.tell(r, r.randint(1, 5)) for s in (about, other)]
    r.shuffle(documents)
    first = [about]

    def ask(distance):
        subject = first.pop() if first else r.choice([about, other])
        asked = r.sample(subject.facts, r.randint(1, 3))
        return " ".join(f["question"] for f in asked), " ".join(f[distance] for f in asked)
    return documents, ask


APPS = "Mail Camera Maps Music Notes Clock Files Photos Calendar Weather Wallet Radio".split()
ELEMENTS = {"button": "tap", "switch": "toggle", "field": "type into", "tab": "open", "row": "select", "slider": "drag"}
LABELS = ["Save", "Send", "Search", "Delete", "Share", "Sound", "Dark mode", "Location", "Language", "Backup",
          "Account",
          "Notifications", "Bluetooth", "Storage", "Privacy", "Updates", "Font size", "Brightness", "Sync", "Help",
          "Wallpaper", "Keyboard", "Alarm", "Volume", "History", "Filter", "Download", "Upload", "Profile", "Contacts"]


def ui(r, test):
    """A screen as a list of elements; the script names those to use, in the order asked for."""
    app, elements = r.choice(APPS), []
    for i, label in enumerate(r.sample(LABELS, r.randint(12, 22))):
        kind = r.choice(sorted(ELEMENTS))
        label = f"{label} {name(r, test)}" if i == 0 or r.random() < 0.4 else label
        at = (r.randint(0, 1080), r.randint(0, 2300))
        elements.append((kind, r.randint(100, 999), label, at, r.choice(["on", "off", "enabled", "hidden", "focused"])))
    rows = [f'<{k} id="{n}" label="{label}" x="{x}" y="{y}" state="{state}"/>' for k, n, label, (x, y),
            state in elements]
    screen = f'<screen app="{app}">\n' + "\n".join(rows) + "\n</screen>"

    def ask(distance):
        chosen = [elements[0]] + r.sample(elements[1:], r.randint(2, 5))
        script = []
        for k, n, label, (x, y), state in chosen:
            if distance == "copied":
                line = f'{ELEMENTS[k]} <{k} id="{n}" label="{label}" x="{x}" y="{y}" state="{state}"/>'
            elif distance == "lightly":
                line = f'{ELEMENTS[k]} {k} id="{n}" label="{label}" at x="{x}" y="{y}"'
            else:
                line = f"{ELEMENTS[k]}({n}, {x}, {y})  # {label}"
            script.append(line)
        steps = ", then ".join(f"{ELEMENTS[k]} {label}" for k, n, label, at, state in chosen)
        return f"Write the script for {app}: {steps}.", "\n".join(script)
    return [screen], ask


GREETINGS, CLOSINGS = ["Hi", "Hello", "Dear", "Hey", "Good morning"], ["See you soon", "Best wishes", "Yours", "Cheers",
                                                                       "Take care"]
THANKS = ["Thanks for your message.", "Thank you for asking!", "Nice to hear from you.", "Good that you ask."]


def reply(r, test):
    """Notes on what is asked, and earlier messages in the style of the one who answers."""
    s, me, friend = Subject(r, test, 8), name(r, test), name(r, test)
    hello, bye, thanks = r.choice(GREETINGS), r.choice(CLOSINGS), r.choice(THANKS)
    earlier = Subject(r, test, 4)
    past = "\n\n".join(f"{hello} {name(r, test)},\n{thanks} {f['lightly']}\n{bye}, {me}"
                       for f in earlier.facts[:r.randint(2, 4)])
    first = [r.sample(s.facts, r.randint(1, 3))]

    def ask(distance):
        asked = first.pop() if first else r.sample(s.facts, r.randint(1, 3))
        answer = f"{hello} {friend},\n{thanks} " + " ".join(f[distance] for f in asked) + f"\n{bye}, {me}"
        questions = " ".join(f["question"] for f in asked)
        return f"Answer this message from {friend} as {me}: {questions}", answer
    return [s.tell(r, r.randint(0, 3)), past], ask


def make(seed, turns=1):
    """{task, distance, seed, documents, question, answer} of a seed; with further turns, `more`: (question, answer) of
    each, at any distance."""
    r, task, distance = random.Random(seed), TASKS[seed % 4], DISTANCES[seed // 4 % 3]
    documents, ask = globals()[task](r, seed >= FIRST_TEST_SEED)

    def exchange(distance):
        question, answer = ask(distance)
        return f"{question} {STYLES[distance]}", answer
    question, answer = exchange(distance)
    made = dict(task=task, distance=distance, seed=seed, documents=documents, question=question, answer=answer)
    if turns > 1:
        made["more"] = [exchange(r.choice(DISTANCES)) for _ in range(turns - 1)]
    return made


def texts(made):
    """The prompt as `lutra run --rag` has it, its answer, and further prompts and answers of the same chat: ChatML."""
    passages = "".join(f"[{i + 1}] document\n{d}\n\n" for i, d in enumerate(made["documents"]))
    said = [f"<|im_start|>user\nPassages:\n\n{passages}"]
    for question, answer in [(made["question"], made["answer"])] + made.get("more", []):
        said[-1] += f"{question}<|im_end|>\n<|im_start|>assistant\n"
        said += [answer + "<|im_end|>", "\n<|im_start|>user\n"]
    return said[:-1]


def branches(made):
    """The documents of a prompt, and (question, answer) of each turn as continuations of them."""
    prompt, *more = texts(made)
    trunk = prompt[:prompt.index(made["question"])]
    return trunk, [(question.removeprefix("\n<|im_start|>user\n").removeprefix(trunk), answer)
                   for question, answer in zip([prompt] + more[1::2], more[::2])]


# Training by branches: tasks by turns, and questions about their documents; most of what is learnt last.
MIX = [("rag", 24), ("ui", 6), ("rag", 24), ("ui", 6), ("reply", 10), ("rag", 24), ("ui", 6), ("summary", 4)]


def example(i):
    """The i-th example of the mix."""
    task, turns = MIX[i % len(MIX)]
    return make(4 * i + TASKS.index(task), turns)


def right(made, text):
    """Scripts: to the letter.  Else: every number and name of the answer is said."""
    if made["task"] == "ui":
        return text.strip() == made["answer"]
    return all(word in text for word in re.findall(r"\d+|[A-Z][a-z]{3,}", made["answer"]))


# ---- the bundled set ----

def lines(each):
    n = each * len(TASKS) * len(DISTANCES)
    for seed in range(FIRST_PAST_SEED, FIRST_PAST_SEED + n):
        m = make(seed)
        yield json.dumps(dict(past=True, question=m["question"], answer=m["answer"])) + "\n"
    for seed in range(FIRST_TEST_SEED, FIRST_TEST_SEED + n):
        yield json.dumps(make(seed)) + "\n"


def check(path):
    with open(path, encoding="utf-8", newline="") as f:
        text = f.read()
    if text != "".join(lines(text.count("\n") // (2 * len(TASKS) * len(DISTANCES)))):
        return f"{path} is not what reader.py writes"
    held = set()
    for m in map(json.loads, text.splitlines()):
        held |= {m["question"], *m.get("documents", ())}
    shared = [m["seed"] for m in map(make, range(N_COMPARED)) if held & {m["question"], *m["documents"]}]
    print(f"{path}: {len(held)} documents and questions; {N_COMPARED} training examples, {len(shared)} of them among these")
    return f"training seed {shared[0]} is in the test set" if shared else None


def main():
    a = argparse.ArgumentParser()
    a.add_argument("out", nargs="?")
    a.add_argument("--check")
    a.add_argument("--each", type=int, default=20)
    c = a.parse_args()
    if (c.out is None) == (c.check is None):
        sys.exit(__doc__)
    if c.check:
        sys.exit(check(c.check))
    with open(c.out, "w", encoding="utf-8", newline="") as f:
        f.writelines(lines(c.each))


if __name__ == "__main__":
    main()
