"""Plain-English explanations of file, database and memory errors, without Python's terms.

Code that reads a file puts `failure_reason` after the name of the file. The command line prints
`failure_sentence` for errors that no reader caught.
"""

import errno
import re

_BY_ERRNO = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name a file",
    errno.EACCES: "change its permissions, or run as a user who may use it",
    errno.EPERM: "change its permissions, or run as a user who may use it",
    errno.EROFS: "name a place that can be written",
    errno.ENOSPC: "make room, or name another place",
    errno.EDQUOT: "make room, or name another place",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "let the process open more files (ulimit -n)",
}
_CLASSES = {  # by name, because most classes are in libraries that this module does not load
    "BadGzipFile": "it is not a whole gzip file",
    "EOFError": "it ends too early",
    "MemoryError": "there is not enough memory for it; give a smaller one, or a larger machine",
    "RecursionError": "it is nested too deeply",
    "OverflowError": "a number in it is too large",
    "UnicodeDecodeError": "it is not UTF-8",
    "TimeoutError": "no answer in time",
    "RemoteDisconnected": "the connection was closed without an answer",
    "IncompleteRead": "the answer ends too early",
    "UnicodeEncodeError": "a name or text is not UTF-8; rename it",
}
_NUMBER = re.compile(
    r"(?:invalid literal for int\(\) with base 10|could not convert string to float): (.*)", re.S
)
_SSL = re.compile(r"^\[SSL[^]]*\] (.*?)(?: \(_ssl\.c:\d+\))?$", re.S)
_PATH = re.compile(r"\[Errno \d+\] ([^:]*)(?:: .*)?", re.S)


def failure_reason(error: BaseException) -> str:
    """Return why a file or text cannot be read or written, as a clause: "it is not UTF-8".

    For any other kind of error, return its own message in one line of at most 200 characters.
    """
    if isinstance(error, OSError) and error.strerror:
        return _SSL.sub(r"\1", str(error.strerror)).lower()
    for kind in type(error).__mro__:
        if kind.__name__ in _CLASSES:
            return _CLASSES[kind.__name__]
        if kind.__module__ == "zlib":
            return "its compressed part is damaged"
    return _in_plain_words(error)


def _in_plain_words(error: BaseException) -> str:
    if type(error).__name__ == "JSONDecodeError":
        where = f"line {getattr(error, 'lineno', 1)}, column {getattr(error, 'colno', 1)}"
        return f"it is not JSON at {where}"
    text = " ".join(str(error).split())
    if match := _NUMBER.fullmatch(text):
        return f"{match[1][:60]} is not a number"
    if match := _PATH.fullmatch(text):
        return match[1].lower()
    if "Exceeds the limit" in text:
        return "a number in it has too many digits"
    return text[:200] or "it cannot be used"


def failure_sentence(error: BaseException) -> str:
    """Return a sentence that states the error, the file's name if known, and the remedy."""
    if isinstance(error, BrokenPipeError):
        return "the program that read the output has closed it: the output is incomplete"
    names = [getattr(error, name, None) for name in ("filename", "filename2")]
    files = " and ".join(str(name) for name in names if isinstance(name, str | bytes) and name)
    if not isinstance(error, OSError):
        what = "the input" if isinstance(error, RecursionError | MemoryError) else "a file"
        return f"{what}: {failure_reason(error)}"
    hint = _BY_ERRNO.get(error.errno or 0)
    sentence = f"{files or 'the output'}: {failure_reason(error)}"
    return f"{sentence}; {hint}" if hint else sentence
