"""English sentences with two German translations that differ in the number of the verb: one agrees with its subject.

A small grammar makes them, of words that interfaces have: a subject, a phrase between it and the verb, and a predicate.
Subjects, and the nouns of the phrases, are as often singular as plural, so neither the verb by itself nor the noun
before it tells which translation is right.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple


class Contrast(NamedTuple):
    """A source, its translation, and the same with the verb in the other number."""

    source: str
    right: str
    wrong: str
    distance: int
    """Words between the subject and the verb."""
    subject: int = 0
    predicate: int = 0
    """Their places in `SUBJECTS` and `PREDICATES`."""


SUBJECTS = (
    (("The light", "The lights"), ("Das Licht", "Die Lichter")),
    (("The sensor", "The sensors"), ("Der Sensor", "Die Sensoren")),
    (("The device", "The devices"), ("Das Gerät", "Die Geräte")),
    (("The door", "The doors"), ("Die Tür", "Die Türen")),
    (("The camera", "The cameras"), ("Die Kamera", "Die Kameras")),
    (("The switch", "The switches"), ("Der Schalter", "Die Schalter")),
    (("The button", "The buttons"), ("Die Taste", "Die Tasten")),
    (("The speaker", "The speakers"), ("Der Lautsprecher", "Die Lautsprecher")),
    (("The window", "The windows"), ("Das Fenster", "Die Fenster")),
    (("The lamp", "The lamps"), ("Die Lampe", "Die Lampen")),
    (("The fan", "The fans"), ("Der Ventilator", "Die Ventilatoren")),
    (("The battery", "The batteries"), ("Die Batterie", "Die Batterien")),
    (("The account", "The accounts"), ("Das Konto", "Die Konten")),
    (("The file", "The files"), ("Die Datei", "Die Dateien")),
    (("The message", "The messages"), ("Die Nachricht", "Die Nachrichten")),
    (("The image", "The images"), ("Das Bild", "Die Bilder")),
    (("The link", "The links"), ("Der Link", "Die Links")),
    (("The field", "The fields"), ("Das Feld", "Die Felder")),
    (("The list", "The lists"), ("Die Liste", "Die Listen")),
    (("The server", "The servers"), ("Der Server", "Die Server")),
    (("The program", "The programs"), ("Das Programm", "Die Programme")),
    (("The timer", "The timers"), ("Der Timer", "Die Timer")),
    (("The key", "The keys"), ("Der Schlüssel", "Die Schlüssel")),
    (("The value", "The values"), ("Der Wert", "Die Werte")),
)
"""In English and in German, each in singular and plural."""
BETWEEN = (
    ("", ""),
    (" in the kitchen", " in der Küche"),
    (" for all rooms", " für alle Räume"),
    (" in the room of the child", " in dem Zimmer des Kindes"),
    (" in the rooms of the children", " in den Zimmern der Kinder"),
    (" in the house next to the door of the garage", " in dem Haus neben der Tür der Garage"),
    (" in the houses next to the doors of the garages", " in den Häusern neben den Türen der Garagen"),
)
"""What stands between subject and verb, in English and in German."""
PREDICATES = (
    ((" is on.", " are on."), (" ist an.", " sind an.")),
    ((" is off.", " are off."), (" ist aus.", " sind aus.")),
    ((" is not available.", " are not available."), (" ist nicht verfügbar.", " sind nicht verfügbar.")),
    ((" has an error.", " have an error."), (" hat einen Fehler.", " haben einen Fehler.")),
    ((" is updated.", " are updated."), (" wird aktualisiert.", " werden aktualisiert.")),
    ((" must be added.", " must be added."), (" muss hinzugefügt werden.", " müssen hinzugefügt werden.")),
    ((" was not found.", " were not found."), (" wurde nicht gefunden.", " wurden nicht gefunden.")),
    ((" has been removed.", " have been removed."), (" wurde entfernt.", " wurden entfernt.")),
    ((" can be changed.", " can be changed."), (" kann geändert werden.", " können geändert werden.")),
    ((" does not work.", " do not work."), (" funktioniert nicht.", " funktionieren nicht.")),
    ((" is not supported.", " are not supported."), (" wird nicht unterstützt.", " werden nicht unterstützt.")),
    ((" already exists.", " already exist."), (" existiert bereits.", " existieren bereits.")),
)
"""In English and in German, each in singular and plural."""


def contrasts() -> Iterator[Contrast]:
    """All sentences of the grammar."""
    for number, subject, between, predicate in product((0, 1), enumerate(SUBJECTS), BETWEEN, enumerate(PREDICATES)):
        (at, (english, german)), (phrase, german_phrase), (end, (verb, german_verb)) = subject, between, predicate
        prefix = german[number] + german_phrase
        yield Contrast(english[number] + phrase + verb[number], prefix + german_verb[number],
                       prefix + german_verb[1 - number], len(german_phrase.split()), at, end)
