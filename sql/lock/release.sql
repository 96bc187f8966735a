-- Release a named lock; one waiter gets it. NULL or 0: it was not held here.
SELECT RELEASE_LOCK(?) AS released
