"""The PyInstaller hook for tables that are read as files; modules are found by their imports."""

from importlib.util import find_spec

from PyInstaller.utils.hooks import collect_data_files

datas = collect_data_files("rappor_core")
hiddenimports = ["rappor_core.grid.h3"] if find_spec("h3") else []  # an extra, loaded by name
