"""Making a change set: compare, guard, order, select."""
