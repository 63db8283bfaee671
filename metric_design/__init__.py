"""The design of a metric before it ships: plans, reviews, predicted errors, codes and accessors."""
