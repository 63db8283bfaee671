"""The UCI Adult training split, where it is at hand, and trees for its columns."""

import csv
import lzma
from pathlib import Path

import pytest

from disclosure.anonymize import Columns, Hierarchy, IntervalColumn

FILE = Path(__file__).parents[2] / "../shared/data/adult.csv.xz"
NAMES = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]
COLUMNS = [
    "age",
    "workclass",
    "education",
    "marital_status",
    "occupation",
    "race",
    "sex",
    "native_country",
]
GROUPS = {
    "workclass": {
        "self-employed": ["Self-emp-not-inc", "Self-emp-inc"],
        "government": ["Federal-gov", "Local-gov", "State-gov"],
        "without pay": ["Without-pay", "Never-worked"],
    },
    "education": {
        "no diploma": ["Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th"],
        "some college": ["Some-college", "Assoc-voc", "Assoc-acdm"],
        "advanced": ["Masters", "Doctorate", "Prof-school"],
    },
    "marital_status": {
        "married": ["Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent"],
        "was married": ["Divorced", "Separated", "Widowed"],
    },
    "occupation": {
        "office": ["Adm-clerical", "Exec-managerial", "Prof-specialty", "Sales", "Tech-support"],
        "manual": [
            "Craft-repair",
            "Farming-fishing",
            "Handlers-cleaners",
            "Machine-op-inspct",
            "Transport-moving",
        ],
        "service": ["Other-service", "Priv-house-serv", "Protective-serv", "Armed-Forces"],
    },
    "native_country": {
        "Asia": [
            "Cambodia",
            "China",
            "Hong",
            "India",
            "Iran",
            "Japan",
            "Laos",
            "Philippines",
            "Taiwan",
            "Thailand",
            "Vietnam",
        ],
        "Europe": [
            "England",
            "France",
            "Germany",
            "Greece",
            "Holand-Netherlands",
            "Hungary",
            "Ireland",
            "Italy",
            "Poland",
            "Portugal",
            "Scotland",
            "Yugoslavia",
        ],
        "Latin America": [
            "Columbia",
            "Cuba",
            "Dominican-Republic",
            "Ecuador",
            "El-Salvador",
            "Guatemala",
            "Haiti",
            "Honduras",
            "Jamaica",
            "Mexico",
            "Nicaragua",
            "Peru",
            "Puerto-Rico",
            "Trinadad&Tobago",
        ],
    },
}


def adult(rows: int) -> dict[str, list[str]]:
    """The first rows, by column; skips the test where the file is not at hand."""
    if not FILE.exists():
        pytest.skip("the Adult data are not at ../shared/data")
    with lzma.open(FILE, "rt") as file:
        lines = [line for line in csv.reader(file, skipinitialspace=True) if line][:rows]
    return dict(zip(NAMES, map(list, zip(*lines, strict=True)), strict=True))


def adult_columns(table: dict[str, list[str]], names: list[str] = COLUMNS) -> Columns:
    """A tree of two levels for columns with groups, of one level for others; ages as numbers."""
    kinds: dict[str, Hierarchy | IntervalColumn] = {}
    for name in names:
        above = {v: group for group, values in GROUPS.get(name, {}).items() for v in values}
        values = sorted(set(table[name]))
        if name == "age":
            kinds[name] = IntervalColumn(17, 90)
        elif above:
            kinds[name] = Hierarchy(tuple((v, above.get(v, v), f"any {name}") for v in values))
        else:
            kinds[name] = Hierarchy.flat(values, f"any {name}")
    return Columns(kinds)
