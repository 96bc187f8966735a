-- Take a named lock without waiting, and return the id of the connection that
-- holds it. Not CONNECTION_ID(), which some proxies answer themselves.
SELECT GET_LOCK(?, 0) AS taken, IS_USED_LOCK(?) AS conn
