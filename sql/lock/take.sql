-- Take a named lock without waiting, and learn the id of the connection that holds
-- it. Not CONNECTION_ID(): some proxies answer that themselves.
SELECT GET_LOCK(?, 0) AS taken, IS_USED_LOCK(?) AS conn
