"""Before a metric ships: plan, review, predicted errors, trained codes, typed accessors."""
