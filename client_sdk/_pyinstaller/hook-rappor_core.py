"""The PyInstaller hook that adds tables, which are read as files, to the app."""

from importlib.util import find_spec

from PyInstaller.utils.hooks import collect_data_files

datas = collect_data_files("rappor_core")
hiddenimports = ["rappor_core.grid.h3"] if find_spec("h3") else []  # optional, loaded by name
