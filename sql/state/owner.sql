-- Who leads, to tell "deposed" from "overtaken" after a write that matched nothing.
SELECT owner, term FROM distribute_lock WHERE data_center = ? AND lock_name = ?
