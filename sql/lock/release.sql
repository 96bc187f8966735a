-- Give a named lock back; one waiter wakes. NULL or 0 when it was not ours.
SELECT RELEASE_LOCK(?) AS released
