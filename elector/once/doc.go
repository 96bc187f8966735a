// Package once runs a function once in each period, in one of the processes that want to:
// a cron for a program of which several copies run, by a row in their MySQL database.
// It needs no Elector. Beside one, it runs jobs in any process, not in the leader alone.
//
// # A run is a term
//
// The job is a lock row, as that of an election, and a run is a term of it that lasts for
// a period at most: it is won by a compare-and-swap when the last term was resigned or has
// expired, and the present period has none yet. So package fence refuses the writes of an
// older run, and no table, statement of the fence or privilege is new. The row has the time
// at which the last run began, and each look reads it with the database's clock of that
// moment. What a process waits in between is measured by its own clock, and decides nothing.
// The columns of distribute_lock, for an operator's SQL:
//
//	lock_name       the job
//	term            the number of the last run; 0: it has never run
//	owner           the process that ran it, name@incarnation
//	gmt_modified    when it began, UTC
//	resigned        1: it has ended. 0: it is running, or has died
//	address         the beginning of its error; empty if there was none
//	duration        the period in ms
//	term_duration   periods without a run, in all
//
// DB.Migrate, once for any lock, makes the table, and the first look of a job makes its row.
// Job.Run needs SELECT, INSERT and UPDATE on distribute_lock, Job.Last needs SELECT.
//
// For each period a process sends one SELECT, within 100 ms (or a hundredth of it) after it
// began, and the one that runs the job three statements more: begin, end, and another look.
//
// # Guarantees
//
//   - At most one run begins in each period, whatever dies, hangs or is answered late, as
//     long as the row is not removed or set back (by a backup, or a failover that lost writes).
//   - A run's context ends before the next run begins. What it writes under its Token after
//     that is refused, also if the process was stopped meanwhile.
//   - What was left out is seen: Run.Missed and Died, Last, the row, and a WARN.
//
// # What is not guaranteed
//
//   - That each period has a run: there is none if no process or no database was there, or
//     while the last run goes on. A run begins late rather than never, while its period
//     lasts, and at once when the job is new.
//   - That a run does all that it should. One whose process dies counts and is not repeated; it
//     is reported as dead a period after it began, and the next one does not begin before.
//   - That f ends with its context. Choose Every longer than the longest run.
//   - Anything about a database clock that is set. Set back, it has no runs until it passes
//     the last one again (Last.Next and a WARN show it; set gmt_modified of the row to
//     UTC_TIMESTAMP(3)). Set forward in a run, or faster than the clock by which that
//     run ends, it may have two at the same time, and the older one's token is refused.
//   - That processes with another Every agree: each counts its own periods.
package once
