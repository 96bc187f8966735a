-- After the transaction the session has its own limits again.
SET SESSION wait_timeout = @conclave_wait_timeout
/*M!100300 , SESSION idle_write_transaction_timeout = @conclave_idle_write, SESSION idle_readonly_transaction_timeout = @conclave_idle_read */
