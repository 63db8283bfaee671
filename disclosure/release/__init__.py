"""Releases of decoded tables: policy, suppression, files, signature."""

from disclosure.release.build import Audit, Release, audit_releases, build_release
from disclosure.release.difference import Difference, compare_releases, policy_changes
from disclosure.release.files import write_release
from disclosure.release.policy import ReleasePolicy, RollUp, load_policy, policy_of_text
from disclosure.release.signature import (
    key_id,
    load_private_key,
    load_public_key,
    load_signer,
    make_keys,
    sign_manifest,
)
from disclosure.release.sources import read_source
from disclosure.release.tables import CellTable, ReleasedTable
from disclosure.release.verification import check_latest, read_release, verify_release

__all__ = [
    "Audit",
    "CellTable",
    "Difference",
    "Release",
    "ReleasePolicy",
    "ReleasedTable",
    "RollUp",
    "audit_releases",
    "build_release",
    "check_latest",
    "compare_releases",
    "key_id",
    "load_policy",
    "load_private_key",
    "load_public_key",
    "load_signer",
    "make_keys",
    "policy_changes",
    "policy_of_text",
    "read_release",
    "read_source",
    "sign_manifest",
    "verify_release",
    "write_release",
]
