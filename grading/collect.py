"""`quack-tutorial labs collect DOWNLOAD FOLDER`: a learning management system's download -> FOLDER/<student>/<lab>.ipynb.

| from       | a file in the download (a zip, or the folder that was made of it)                                 |
|------------|----------------------------------------------------------------------------------------------------|
| Canvas     | `lovelaceada_1234_567890_butterfly-1.ipynb`, `lovelaceada_LATE_1234_567890_butterfly.ipynb`          |
| Moodle     | `Ada Lovelace_1234_assignsubmission_file_/butterfly.ipynb`, or all of it as one name                 |
| Gradescope | `submission_1234/butterfly.ipynb`, with `submission_metadata.yml`                                  |
| nbgrader   | `ada/butterfly/butterfly.ipynb`, with `timestamp.txt`                                              |
| a folder   | `ada/butterfly (1).ipynb`                                                                          |

The lab is that of the file's name, whatever a browser made of it (`butterfly (1).ipynb`, `Copy of Butterfly.ipynb`,
`butterfly.ipynb.txt`), else the one whose checks the notebook calls, else the one that `--lab` names. Of several attempts the
newest is taken, and the command says which. A zip that a student handed in is looked into. FOLDER also gets `roster.csv`, the
roster as it was given, and `collected.csv`: whose file came from where, when, and how many days after `--due`.

Nothing in a download says where a file is written: a student's folder has the name that the roster gives.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from zoneinfo import ZoneInfo

from quack_tutorial import machine

from . import folders, roster
from .judgement import clean
from .submission import MAX_BYTES

SUFFIXES = (".ipynb", ".md", ".py")
MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_file_?(?P<file>.*)")
CANVAS = re.compile(r"(?P<name>.+?)(?P<late>_LATE)?_(?P<id>\d+)_(?P<submission>\d+)_(?P<file>.+)")
GRADESCOPE = re.compile(r"submission_\d+")
CALLS = re.compile(r"labs\.(?:check|watch)\(\s*\\?[\"']([\w-]+)")
COLUMNS = ("student", "name", "lab", "file", "received", "late_days")
MOST_FILES = 20_000


@dataclass(frozen=True)
class File:
    """A file of a download: the names that may say whose it is, and what tells the newest of several."""

    place: str  # in the download
    name: str  # as the student called it
    names: tuple[str, ...] = ()
    received: datetime | None = None
    late: bool = False
    order: tuple = ()
    lab: str = ""


def collect(
    download: Path,
    folder: Path,
    of: str = "",
    people: Path | None = None,
    due: datetime | None = None,
    nbgrader: bool = False,
) -> list[str]:
    """Copy a download's submissions into a class's folder; sentences on what to look at. A ValueError says why not.

    With `nbgrader` into FOLDER/<student>/<lab>/<lab>.ipynb, where nbgrader looks, and nothing else.
    """
    given = people or folder / "roster.csv"
    students = roster.read(given) if people or given.is_file() else []
    if of and of not in folders():
        raise ValueError(f"there is no lab {of!r}; there is {', '.join(folders())}")
    best, said = {}, []
    for file, data in _files(download, said):
        lab = lab_of(file.name, data, of)
        if lab is None or of and lab != of:
            looks = f"looks like {lab}" if lab else "belongs to no lab that its name or its checks tell"
            said.append(f"{clean(file.place)}: left out, because it {looks}")
            continue
        if not file.names:
            said.append(f"{clean(file.place)}: left out, because no folder and no part of its name says whose it is")
            continue
        owners = roster.matching(students, *file.names)
        if len(owners) > 1:
            both = " and ".join(f"{one.name} ({one.folder})" for one in owners)
            said.append(
                f"{clean(file.place)}: left out, because it could be that of {both}; copy it into a folder by hand"
            )
            continue
        called = file.names[-1]
        own = owners[0] if owners else roster.Student(roster.folder_name(called), clean(called, 200), {})
        if students and not owners:
            said.append(f"{own.folder}: not on the roster")
        best.setdefault((own.folder, lab), []).append((replace(file, lab=lab), data, own))
    if not best:
        raise ValueError(f"{download} holds no notebook of a lab" + "".join(f"\n  {one}" for one in said))
    kept = {(row["student"], row["lab"]): row for row in _collected(folder)}
    for (student, lab), found in sorted(best.items()):
        found.sort(key=lambda one: one[0].order)
        file, data, own = found[-1]
        if len(found) > 1:
            others = ", ".join(clean(one.name, 100) for one, _, _ in found[:-1])
            said.append(f"{student}: took {clean(file.name, 100)}, the newest, and not {others}")
        home = folder / student / lab if nbgrader else folder / student
        home.mkdir(parents=True, exist_ok=True)
        target = home / f"{lab}{suffix_of(file.name)}"
        for old in [home / f"{lab}{suffix}" for suffix in SUFFIXES]:
            if old.is_file() and (old != target or old.read_bytes() != data):
                said.append(
                    f"{student}: {old.name} of an earlier download is replaced; points by hand and late days stay as they are"
                )
                old.unlink()
        target.write_bytes(data)
        days = days_late(file.received, due) if due and file.received else "?" if file.late else ""
        when = file.received.isoformat(sep=" ", timespec="seconds") if file.received else ""
        kept[student, lab] = dict(zip(COLUMNS, (student, own.name, lab, clean(file.place), when, days)))
    if nbgrader:
        return [*said, f"collected {len(best)} submissions into {folder}"]
    if people and people.resolve() != (folder / "roster.csv").resolve():
        shutil.copyfile(people, folder / "roster.csv")
    text = io.StringIO()
    written = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    written.writeheader()
    written.writerows(row for _, row in sorted(kept.items()))
    (folder / "collected.csv").write_text(text.getvalue(), encoding="utf-8")
    unknown = [f"{who} {lab}" for (who, lab), row in sorted(kept.items()) if row["late_days"] == "?"]
    if unknown:
        said.append(
            f"late, and the download does not say by how much; write the days into grades.csv: {', '.join(unknown)}"
        )
    missing = [one.folder for one in students if not any(who == one.folder for who, _ in best)]
    if missing:
        said.append(f"nothing from {len(missing)} of {len(students)} on the roster: {', '.join(missing)}")
    said.append(f"collected {len(best)} submissions into {folder}")
    return list(dict.fromkeys(said))


def _collected(folder: Path) -> list[dict]:
    file = folder / "collected.csv"
    return [row for row in roster.table(file) if set(COLUMNS) <= set(row)] if file.is_file() else []


def late_days(folder: Path) -> dict:
    """{(student, lab): days after the date, as text} where a download told them."""
    return {(row["student"], row["lab"]): row["late_days"] for row in _collected(folder) if row["late_days"].isdigit()}


def late_by_unknown(folder: Path) -> set:
    """The (student, lab) that a download marked as late without a time."""
    return {(row["student"], row["lab"]) for row in _collected(folder) if row["late_days"] == "?"}


def days_late(received: datetime, due: datetime) -> int:
    """Days begun after the date; a time without a zone is of this machine's."""
    seconds = (received.astimezone() - due.astimezone()).total_seconds()
    return max(0, math.ceil(seconds / 86400))


def lab_of(name: str, data: bytes, otherwise: str = "") -> str | None:
    """The lab of a file by its name, else by the checks that it calls, else `otherwise`."""
    known = folders()
    stem, _ = original(name)
    if stem in known:
        return stem
    within = [lab for lab in known if re.search(rf"(?<![a-z]){re.escape(lab)}(?![a-z])", stem)]
    if len(within) == 1:
        return within[0]
    called = Counter(lab for lab in CALLS.findall(data.decode("utf-8", "replace")) if lab in known)
    return called.most_common(1)[0][0] if called else otherwise or None


def original(name: str) -> tuple[str, int]:
    """(the stem that a student's file had, in small letters; the number that a browser or Canvas gave its copy)."""
    stem = name[: len(name) - len(_ending(name))].lower().strip()
    copies = 0
    while found := re.search(r"(?:\s*\((\d+)\)|-(\d+)|\s*[-_ ]\s*copy(?:\s*\(?(\d+)\)?)?)$", stem):
        if stem in folders():
            break
        copies += max([int(n) for n in found.groups() if n], default=1)
        stem = stem[: found.start()].strip()
    stem = re.sub(r"^copy(\d*)? of ", "", stem)
    return re.sub(r"[\s_]+", "-", stem), copies


def suffix_of(name: str) -> str:
    """.ipynb, .md or .py; "" for another file."""
    return re.match(r"\.(?:ipynb|md|py)|", _ending(name).lower())[0]


def _ending(name: str) -> str:
    """A name's suffix, with what a browser hung behind it."""
    found = re.search(r"\.(ipynb|md|py)(\.txt|\.json)?$", name, re.IGNORECASE)
    return found[0] if found else ""


def _files(download: Path, said: list[str]) -> Iterator[tuple[File, bytes]]:
    """Each file of a download that may be a submission, with at most a byte more than a submission may have."""
    try:
        entries = dict(_zipped(download, said) if download.is_file() else _in_folder(download))
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise ValueError(
            f"{download} cannot be read ({machine.reason(error)}): name the folder or the zip that the LMS gave"
        ) from None
    paths = [PurePosixPath(place) for place in entries]
    while paths and all(len(path.parts) > 2 and path.parts[1] not in folders() for path in paths):
        if len({path.parts[0] for path in paths}) > 1:
            break
        entries = {place.partition("/")[2]: content for place, content in entries.items()}
        paths = [PurePosixPath(place) for place in entries]
    metadata = next((c for place, c in entries.items() if place.endswith("submission_metadata.yml")), None)
    submitters = _submitters(metadata().decode("utf-8", "replace")) if metadata else {}
    for place, content in entries.items():
        try:
            data = content()
        except (OSError, RuntimeError, zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
            said.append(f"{clean(place)}: left out, because it cannot be read ({clean(machine.reason(error), 100)})")
            continue
        for file in _told(place, entries, submitters):
            if suffix_of(file.name) and not (file.name.lower() == "readme.md"):
                yield file, data
            elif file.name.lower().endswith(".zip"):
                yield from _of_zip(file, data, said)


def _of_zip(outer: File, data: bytes, said: list[str]) -> Iterator[tuple[File, bytes]]:
    """The submissions within a zip that a student handed in."""
    try:
        inner = [(place, read()) for place, read in _zipped(io.BytesIO(data), said) if suffix_of(place)]
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError, ValueError) as error:
        said.append(f"{clean(outer.place)}: left out, because it cannot be read ({clean(machine.reason(error), 100)})")
        return
    for place, content in inner:
        name = PurePosixPath(place).name
        yield (
            replace(outer, place=f"{outer.place}/{place}", name=name, order=(*outer.order[:3], original(name)[1])),
            content,
        )


def _zipped(file, said: list[str]):
    """(path, a function that reads it) of a zip's entries; none is unpacked further than a submission may be large."""
    whole = zipfile.ZipFile(file)
    for info in whole.infolist()[:MOST_FILES]:
        if info.is_dir() or _is_litter(info.filename):
            continue
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            said.append(
                f"{clean(info.filename)}: left out, because it is packed in a way that zips of notebooks are not"
            )
            continue

        def content(info=info):
            with whole.open(info) as part:
                return part.read(MAX_BYTES + 1)

        yield info.filename.replace("\\", "/"), content


def _in_folder(folder: Path):
    """(path, a function that reads it) of a folder's plain files."""
    os.listdir(folder)  # OSError where there is none, or nobody may look into it
    for file in sorted(folder.rglob("*"))[:MOST_FILES]:
        place = file.relative_to(folder).as_posix()
        if file.is_file() and not file.is_symlink() and not _is_litter(place):

            def content(file=file):
                with file.open("rb") as part:
                    return part.read(MAX_BYTES + 1)

            yield place, content


def _is_litter(place: str) -> bool:
    """Whether a path is what macOS, Jupyter or git leave behind."""
    return any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(place).parts)


def _told(place: str, entries: dict, submitters: dict) -> list[File]:
    """What a path says of a file; a file for each who handed it in together."""
    *above, last = PurePosixPath(place).parts
    for i, part in enumerate([*above, last]):
        if found := MOODLE.fullmatch(part):
            name = last if i < len(above) else found["file"]
            return [File(place, name, (found["name"],), order=(0, 0, 0, original(name)[1]))]
        if GRADESCOPE.fullmatch(part) and part in submitters:
            when, people = submitters[part]
            stamp = when.timestamp() if when else 0
            return [
                File(place, last, names, when, order=(int(part[11:]), stamp, 0, original(last)[1])) for names in people
            ]
    if len(above) >= 2 and above[-1] in folders():
        stamp = entries.get("/".join([*above, "timestamp.txt"]))
        when = _timestamp(stamp().decode("utf-8", "replace")) if stamp else None
        return [File(place, last, (above[-2],), when, order=(0, when.timestamp() if when else 0, 0, original(last)[1]))]
    if not above and (found := CANVAS.fullmatch(last)):
        order = (int(found["submission"]), 0, 0, original(found["file"])[1])
        return [File(place, found["file"], (found["id"], found["name"]), None, bool(found["late"]), order)]
    return [File(place, last, above[:1] and (above[0],), order=(0, 0, 0, original(last)[1]))]


def _submitters(text: str) -> dict:
    """{folder: (when, the names of each submitter)} of Gradescope's submission_metadata.yml."""
    found = {}
    for part in re.split(r"(?m)^(?=submission_\d+:)", text):
        key = re.match(r"submission_\d+", part)
        if not key:
            continue
        created = re.search(r"(?m)^ {2}:created_at: *(.+)$", part)
        people = []
        for person in re.split(r"(?m)^ *- (?=:)", part.partition(":submitters:")[2].partition("\n  :")[0])[1:]:
            said = dict(re.findall(r"(?m)^ *:(sid|email|name): *['\"]?(.*?)['\"]? *$", person))
            people.append(tuple(filter(None, (said.get("sid"), said.get("email"), said.get("name")))))
        found[key[0]] = (_timestamp(created[1]) if created else None, [one for one in people if one])
    return found


def _timestamp(text: str) -> datetime | None:
    """A time as nbgrader and Gradescope write it: a date, a time, and a zone's name or difference."""
    found = re.match(r"['\"]?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?\s*([\w/+:-]*)", text.strip())
    if not found:
        return None
    when, zone = datetime.fromisoformat(f"{found[1]} {found[2]}"), found[3]
    if zone in ("Z", "UTC"):
        return when.replace(tzinfo=UTC)
    try:
        return (
            datetime.fromisoformat(f"{when}{zone}")
            if re.fullmatch(r"[+-]\d\d:?\d\d", zone)
            else when.replace(tzinfo=ZoneInfo(zone))
        )
    except (ValueError, KeyError, OSError):
        return when
