"""The collector's operations, as transactions on the store, without HTTP."""
