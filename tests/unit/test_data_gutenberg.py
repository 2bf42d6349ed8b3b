"""The Complete Works in one file, counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedmpi.data.contents import contents
from fedmpi.data.sources.gutenberg import import_gutenberg, split_works
from fedmpi.data.store import open_store
from fedmpi.errors import DataError

A, B, C, D = "a" * 40, "b" * 40, "c" * 40, "d" * 90

# The layout of the 1994 edition: two spaces before a speaker, four before the lines that follow; none in the Comedy.
WORKS = f"""The Project Gutenberg EBook of The Complete Works, by William Shakespeare

1609

THE SONNETS

by William Shakespeare



                     1
  From fairest. Creatures we desire
  Increase. That thereby

THE END



1604

THE PLAY OF STONES


by William Shakespeare



Dramatis Personae

  ANNA, a mason

ACT I. SCENE 1.
The quarry.

Enter ANNA

  ANNA. {A}
    {B}
  BERT. Only one line
    and a second
  Anna. {C}
                                  Exit
<<THIS ELECTRONIC VERSION IS NOT COUNTED>>
  CARL. One
    two
    three

THE END

1593

THE COMEDY OF ERRORS


by William Shakespeare


DRAMATIS PERSONAE

ACT I. SCENE 1.

DORA. {D}
{A}
<<THIS NOTICE ENDS A SPEECH
and is left out>>

ED. {D}
one more
and another
DORA. {B}

A LOVER'S COMPLAINT

by William Shakespeare

    From off. a hill

*** END OF THE PROJECT GUTENBERG EBOOK ***
  FRED. licence
    licence
    licence
  GERD. licence
    licence
    licence
"""


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDMPI_CACHE", str(tmp_path / "cache"))


def test_roles_are_split_as_leaf_does() -> None:
    (stones, quarry), (comedy, errors) = split_works(WORKS)
    assert (stones, comedy) == ("THE PLAY OF STONES", "THE COMEDY OF ERRORS")
    # BERT has two lines only. Directions that are indented stay; Anna and ANNA are one.
    assert quarry == {"ANNA": f"{A} {B} {C} Exit ", "CARL": "One two three "}
    # The notice ends DORA's speech. Any flush line goes on with one, so the next title does (in LEAF too).
    assert errors == {"DORA": f"{D} {A} {B} A LOVER'S COMPLAINT ", "ED": f"{D} one more and another "}


def test_clients_and_windows_are_those_counted_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "pg100.txt"
    file.write_bytes(b"\xef\xbb\xbf" + WORKS.replace("\n", "\r\n").encode())
    with open_store(import_gutenberg(file), "text") as store:
        names = [name.decode() for name in store.read("names")]
        lengths = dict(zip(names, np.diff(store.read("offsets")).tolist(), strict=True))
    assert lengths == {
        "THE_PLAY_OF_STONES_ANNA": 41 + 41 + 41 + 5,
        "THE_PLAY_OF_STONES_CARL": 4 + 4 + 6,
        "THE_COMEDY_OF_ERRORS_DORA": 91 + 41 + 41 + 20,
        "THE_COMEDY_OF_ERRORS_ED": 91 + 9 + 12,
    }
    # Less 80 each; CARL has none.
    assert contents("gutenberg").counts == {"clients with a window": 3, "windows": 48 + 113 + 32}


def test_other_texts_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.txt"
    file.write_text("Call me Ishmael.\n" * 100)
    with pytest.raises(DataError, match="no plays found"):
        import_gutenberg(file)
    with pytest.raises(DataError, match="no such file"):
        import_gutenberg(tmp_path / "nowhere.txt")
    assert not (tmp_path / "cache").exists()


def test_bytes_that_are_not_utf_8_are_read_as_latin_1(tmp_path: Path) -> None:
    file = tmp_path / "pg100.txt"
    file.write_bytes(WORKS.replace("three", "tr\u00e9s").encode("latin-1"))
    import_gutenberg(file)
    assert contents("gutenberg").counts["clients with a window"] == 3
