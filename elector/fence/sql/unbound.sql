-- After the transaction the session has its own wait_timeout again.
SET SESSION wait_timeout = @conclave_wait_timeout
