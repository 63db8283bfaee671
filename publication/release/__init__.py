"""Make releases of decoded tables: policy, suppression, files, signature."""

from publication.release.build import Release, build_release
from publication.release.difference import Difference, compare_releases, policy_changes
from publication.release.files import write_release
from publication.release.inference import Audit, InferredNumber, audit_releases
from publication.release.latest import check_latest
from publication.release.merging import pool_rare
from publication.release.policy import ReleasePolicy, RollUp, load_policy, policy_of_text
from publication.release.published import read_published
from publication.release.signature import (
    key_id,
    load_private_key,
    load_public_key,
    make_keys,
    sign_manifest,
)
from publication.release.sources import read_source
from publication.release.tables import CellTable, ReleasedTable
from publication.release.verification import Verified, read_release, verify_release

__all__ = [
    "Audit",
    "CellTable",
    "Difference",
    "InferredNumber",
    "Release",
    "ReleasePolicy",
    "ReleasedTable",
    "RollUp",
    "Verified",
    "audit_releases",
    "build_release",
    "check_latest",
    "compare_releases",
    "key_id",
    "load_policy",
    "load_private_key",
    "load_public_key",
    "make_keys",
    "policy_changes",
    "policy_of_text",
    "pool_rare",
    "read_published",
    "read_release",
    "read_source",
    "sign_manifest",
    "verify_release",
    "write_release",
]
