"""Merging places until each count, or each decoded estimate, is large enough to be shown."""

from publication.aggregation.places import MergedPlaces, merge_by_floor, merge_by_significance

__all__ = ["MergedPlaces", "merge_by_floor", "merge_by_significance"]
