/*
 * The election, as a model for Spin (elector/doc.go and elector/termcas/doc.go are
 * the same story in prose; the numbers 1 to 7 below are theirs). README.md says what
 * is left out, and has the results. ./run checks it.
 *
 * One row in one database; NODES nodes that want it; statements that may be lost,
 * late, or done without an answer; connections that the server may end without
 * telling; a server that may restart; a leader whose port may be silent; and time,
 * which may pass between any two steps of any node: that is what a pause is.
 *
 * Each guard of the protocol can be taken out with -D; ./run lists them.
 */

/* ---- The bounds of a run; ./run sets them with -D. ---- */

#ifndef NODES
#define NODES    2
#endif
#ifndef TERMS
#define TERMS    3	/* nobody competes for a higher term than this */
#endif
#ifndef BEATS
#define BEATS    2	/* renewals in a term, parking anew counts as two */
#endif
#ifndef LEASE
#define LEASE    1	/* ticks; the margin is 0: all clocks of the model run alike */
#endif
#ifndef LOSSES
#define LOSSES   1	/* statements given up: never sent, late, or the answer is lost */
#endif
#ifndef KILLS
#define KILLS    0	/* connections ended by the server's side */
#endif
#ifndef RESTARTS
#define RESTARTS 0	/* restarts of the database */
#endif
#ifndef SILENCES
#define SILENCES 0	/* questions to which a living leader does not answer in time */
#endif
#ifndef CRASHES
#define CRASHES  0	/* processes killed; their ports refuse */
#endif
#ifndef RESIGNS
#define RESIGNS  0
#endif
#ifndef WRITES
#define WRITES   0	/* effects: fenced writes of cluster state */
#endif
#ifndef JUMPS
#define JUMPS    0	/* the database's clock jumps, ahead or back */
#endif
#ifndef RESTORES
#define RESTORES 0	/* an older row is put back from a backup */
#endif

#ifndef CALM
#define CALM     0	/* ticks without faults after which somebody must lead; 0: not asked */
#endif

#define OVERDUE  1	/* ticks after the lease when the database's clock is ignored:
			   the protocol waits two leases more, and is as safe with less */
#if CALM
#define SPARE    3	/* terms and beats that are kept for the calm after the faults */
#else
#define SPARE    0
#endif
#define within(x, limit) (x < limit + (calm -> SPARE : 0))
#define NONCES   (5*NODES)	/* enough: a nonce that nobody knows any more is drawn again */
#define CONNS    (2*NODES)	/* a node's connection, and one that it has given up */

/* ---- Words. ---- */

mtype = { vacant, own, expired, overdue, killed,	/* grounds to win, sql/lock/win_*.sql */
	  renew, repark, resign,			/* sql/lock/renew.sql, reacquire.sql, resign.sql */
	  one_row, no_row, no_answer };			/* what is heard of a statement */

#define ID       (i + 1)	/* node i as the row names it, and as it is printed: M1, M2; 0 is nobody */

/* The lock row: sql/schema/001_distribute_lock.sql. Named locks are "cv:" + nonce,
   so a lock's name is the nonce here; 0 is NULL. age counts ticks since
   gmt_modified by the database's clock and stops at LEASE; GONE_BACK is an age that
   is never enough. */
typedef Row { byte owner, term, beat, nonce, lock, conn, age; bool resigned }
#define GONE_BACK 255

Row row;
byte holder[NONCES + 1];	/* the connection that holds the lock of this nonce; 0: free */
bool up[CONNS + 1];		/* sessions that the server has */

/* A statement on its way, with what it says in SET and WHERE. */
typedef Statement { mtype kind; byte owner, term, nonce, beat, lock, fresh, conn, seen }

Statement said[2 * NODES];	/* [i]: node i waits for its answer; [NODES+i]: given up, may land yet */
mtype answer[NODES];		/* is on its way back to node i; 0: none */

/* A node: elector.state and termcas.Strategy. */
typedef Mind {
	byte term;	/* the term it leads; 0: none */
	byte trust;	/* ticks for which it trusts itself */
	byte sent;	/* the trust that the statement under way will give: counted since it was sent */
	byte fresh;	/* the nonce that it carries */
	byte beat;	/* of the term it leads */
	byte lock;	/* its witness */
	byte line;	/* the pinned connection; 0: none */
	bool lost;	/* ... is known to be broken or doubted: suspended */
	byte left;	/* terms up to this are never led (again) */
	byte seen;	/* the highest term seen anywhere */
	byte watch;	/* the leader's lock that it waits for, having the evidence; 0: none */
	bool got;	/* ... and was given, on its line */
	byte obs;	/* ticks until (term, beat) was observed for LEASE + OVERDUE */
	byte known;	/* the version of the cluster state that it would replace */
	Row r		/* the row as last read */
}
Mind n[NODES];
bool dead[NODES];

/* The cluster state, one kind: sql/state/write.sql and seal.sql. */
byte state_term, state_version;
typedef Effect { byte term, known; bool seal }
Effect effect[NODES];

/* Faults still to come; calm: there will be none. */
byte losses = LOSSES, kills = KILLS, restarts = RESTARTS, silences = SILENCES,
     crashes = CRASHES, resigns = RESIGNS, writes = WRITES, jumps = JUMPS, restores = RESTORES;
bool calm;
byte calm_ticks;
bool due[NODES];	/* in calm a node plays one round a tick, and when it is woken */

/* ---- The properties, and what only they know. ---- */

bool ONE_OWNER_PER_TERM, TERMS_RISE, NO_OLDER_EFFECT, NO_OVERLAP, PROMISE_KEPT,
	    RESTART_COSTS_NO_TERM, A_LEADER_APPEARS;	/* false: names in Spin's message */

byte winner[TERMS + SPARE + 1];	/* whom the row named in this term */
byte last_led[NODES];
byte promised[NODES];		/* "stopped" was said of terms up to this */
byte newest_effect;
byte unanswered;		/* the term whose leader was silent when asked, and has not parked anew since */
byte vanished;			/* the lock that was held when the database restarted */

/* elector.Leading: the check at the moment of acting. */
#ifdef NO_ACT_CHECK
#define trusts(i) true
#else
#define trusts(i) (n[i].trust > 0)
#endif
#ifdef NO_SUSPENSION
#define suspended(i) false
#else
#define suspended(i) n[i].lost
#endif
#define believes(i) (n[i].term && trusts(i) && !suspended(i))

/* Two beliefs. With takeover=lease there are none. With takeover=witness there may
   be when the older leader was silent when it was asked, and has not noticed yet
   that its connection is gone. */
#if RESTORES
#define excused(i, j) true	/* promised to nobody under whose feet the row is set back */
#elif defined(TAKEOVER_LEASE)
#define excused(i, j) false
#else
#define excused(i, j) (n[i].term == unanswered && !n[i].lost || n[j].term == unanswered && !n[j].lost)
#endif
#define overlap(i, j) (believes(i) && believes(j) && !excused(i, j))

inline check_overlap() {
	assert(NO_OVERLAP || !overlap(0, 1));
#if NODES > 2
	assert(NO_OVERLAP || !(overlap(0, 2) || overlap(1, 2)));
#endif
}

/* ---- The guards that ./run takes out. ---- */

/* win_*.sql: owner, term, nonce as read. */
#ifdef WIN_NO_OWNER
#define win_owner(s) true
#else
#define win_owner(s) (row.owner == s.owner)
#endif
#ifdef WIN_NO_TERM
#define win_term(s) true
#else
#define win_term(s) (row.term == s.term)
#endif
#ifdef WIN_NO_NONCE
#define win_nonce(s) true
#else
#define win_nonce(s) (row.nonce == s.nonce)
#endif
#define as_read(s) (win_owner(s) && win_term(s) && win_nonce(s))

/* win_*.sql: CONNECTION_ID, IS_USED: published is what is held. */
#if defined(WIN_NO_OWN_LOCK) || defined(TAKEOVER_LEASE)
#define holds_fresh(s) true
#else
#define holds_fresh(s) (holder[s.fresh] == s.conn)
#endif

/* win_expired.sql, win_overdue.sql: the beat as read; the database's age. */
#if defined(WIN_NO_BEAT) || defined(EXPIRED_NO_BEAT)
#define expired_beat(s) true
#else
#define expired_beat(s) (row.beat == s.beat)
#endif
#ifdef WIN_NO_BEAT
#define overdue_beat(s) true
#else
#define overdue_beat(s) (row.beat == s.beat)
#endif
#ifdef NO_AGE
#define old_enough true
#else
#define old_enough (row.age == LEASE)
#endif
/* 4b: my own clock has seen this (term, beat) for a lease. */
#ifdef NO_OBSERVATION
#define observed(i) true
#else
#define observed(i) (n[i].obs <= OVERDUE)
#endif

/* win_witness.sql: the leader's lock as read, and in my hands. */
#ifdef WITNESS_NO_LOCK
#define witness_lock(s) true
#else
#define witness_lock(s) (row.lock == s.lock)
#endif
#ifdef WITNESS_NO_HOLD
#define witness_held(s) true
#else
#define witness_held(s) (holder[s.lock] == s.conn)
#endif

/* win_vacant.sql: resigned or no owner. */
#ifdef VACANT_NO_GROUND
#define is_vacant true
#else
#define is_vacant (row.resigned || row.owner == 0)
#endif

/* renew.sql, reacquire.sql, resign.sql: owner, term; the beat; the witness. */
#ifdef RENEW_NO_OWNER
#define renew_owner true
#else
#define renew_owner (row.owner == ID)
#endif
#ifdef RENEW_NO_TERM
#define renew_term(s) true
#else
#define renew_term(s) (row.term == s.term)
#endif
#ifdef RENEW_NO_BEAT
#define renew_beat(s) true
#else
#define renew_beat(s) (row.beat == s.beat)
#endif
#ifdef REPARK_NO_OWNER
#define repark_owner true
#else
#define repark_owner (row.owner == ID)
#endif
#ifdef REPARK_NO_TERM
#define repark_term(s) true
#else
#define repark_term(s) (row.term == s.term)
#endif
#ifdef REPARK_NO_LOCK
#define repark_lock(s) true
#else
#define repark_lock(s) (row.lock == s.lock)
#endif
#ifdef REPARK_NO_BEAT
#define repark_beat(s) true
#else
#define repark_beat(s) (row.beat == s.beat || row.beat == s.beat + 1)
#endif
#ifdef REPARK_PLUS_ONE
#define REPARK_BY 1
#else
#define REPARK_BY 2
#endif
#ifdef RESIGN_NO_OWNER
#define resign_owner true
#else
#define resign_owner (row.owner == ID)
#endif
#ifdef RESIGN_NO_TERM
#define resign_term(s) true
#else
#define resign_term(s) (row.term == s.term)
#endif

/* state/write.sql, seal.sql: the lock row in the same statement; the decision as read. */
#ifdef WRITE_NO_FENCE
#define fence(e) true
#else
#define fence(e) (row.owner == ID && row.term == e.term)
#endif
#ifdef WRITE_NO_VERSION
#define version(e) true
#else
#define version(e) (e.seal && state_term < e.term || !e.seal && state_version == e.known)
#endif

/* GREATEST(term, highest seen) + 1. */
#ifdef NO_GREATEST
#define next_term(term, seen) (term + 1)
#else
#define next_term(term, seen) ((seen > term -> seen : term) + 1)
#endif

/* Trust counts from before the statement was sent. */
#ifdef TRUST_FROM_REPLY
#define trust_of(i) LEASE
#else
#define trust_of(i) n[i].sent
#endif
#define in_time(i) (trust_of(i) > 0)

/* Trust that has passed is over: an answer that comes after it is not heard. */
#ifdef RESURRECTED
#define trust_over(i) false
#else
#define trust_over(i) (n[i].trust == 0)
#endif


byte k; bool rows;	/* scratch of one step, 0 between steps */

/* ================= The database ================= */

/* A win, whatever its ground: the SET of win_*.sql. */
inline set_won(s) {
	rows = true;
	row.term = next_term(row.term, s.seen);
	row.owner = ID; row.beat = 0; row.nonce = s.fresh; row.age = 0; row.resigned = false;
#ifndef TAKEOVER_LEASE
	row.lock = s.fresh; row.conn = s.conn;
#endif
	printf("db: M%d wins term %d\n", ID, row.term);
	assert(TERMS_RISE || row.term > s.seen);
#if RESTORES == 0
	assert(ONE_OWNER_PER_TERM || winner[row.term] == 0);
#endif
	winner[row.term] = ID
}

/* One statement, at one moment: the lock on the row orders them all. */
inline execute(s) {
	rows = false;
	if
	:: s.kind == vacant  && as_read(s) && holds_fresh(s) && is_vacant -> set_won(s)
	:: s.kind == own     && as_read(s) && holds_fresh(s) -> set_won(s)
	:: s.kind == expired && as_read(s) && holds_fresh(s) && expired_beat(s) && old_enough -> set_won(s)
	:: s.kind == overdue && as_read(s) && holds_fresh(s) && overdue_beat(s) -> set_won(s)
	:: s.kind == killed  && as_read(s) && holds_fresh(s) && witness_lock(s) && witness_held(s) ->
		if
		:: row.owner && row.lock -> assert(RESTART_COSTS_NO_TERM || row.lock != vanished || n[row.owner - 1].term != row.term)
		:: else
		fi;
		set_won(s)
	:: s.kind == renew   && renew_owner && renew_term(s) && renew_beat(s) ->
		rows = true; row.beat++; row.age = 0;
		printf("db: M%d's renewal: beat %d of term %d\n", ID, row.beat, row.term)
	:: s.kind == repark  && repark_owner && repark_term(s) && repark_lock(s) && repark_beat(s) && holds_fresh(s) ->
		rows = true; row.beat = s.beat + REPARK_BY; row.age = 0;
#ifndef TAKEOVER_LEASE
		row.lock = s.fresh; row.conn = s.conn;
#endif
		if
		:: unanswered == s.term -> unanswered = 0	/* a sign of life */
		:: else
		fi;
		printf("db: M%d parks anew: beat %d of term %d\n", ID, row.beat, row.term)
	:: s.kind == resign  && resign_owner && resign_term(s) ->
		rows = true; row.owner = 0; row.resigned = true; row.lock = 0; row.conn = 0; row.age = 0;
		printf("db: M%d's resignation: term %d has no owner\n", ID, row.term)
	:: else
		-> printf("db: M%d's %e changes no row\n", ID, s.kind)
	fi
}

inline forget(s) {
	s.kind = 0; s.owner = 0; s.term = 0; s.nonce = 0; s.beat = 0; s.lock = 0; s.fresh = 0; s.conn = 0; s.seen = 0
}

/* The server ends a session: its locks are free, and what was given up on it is gone. */
inline end_session(c) {
	up[c] = false;
	k = 1;
	do
	:: k <= NONCES -> if :: holder[k] == c -> holder[k] = 0 :: else fi; k++
	:: else -> k = 0; break
	od;
	if :: said[NODES + i].conn == c -> forget(said[NODES + i]) :: else fi
}

#define can_land(s) (s.kind && (s.conn == 0 || up[s.conn]))
#define zombie(c)   (up[c] && n[i].line != c)

/* What the server does for node i. */
proctype Server(byte i) {
end:	do
	:: d_step { can_land(said[i]) && answer[i] == 0 ->	/* a statement lands and is answered */
		execute(said[i]);
		forget(said[i]);
		answer[i] = (rows -> one_row : no_row); rows = false
	   }
	:: d_step { can_land(said[NODES + i]) ->	/* one that was given up lands late */
		printf("db: late, given up by its sender:\n");
		execute(said[NODES + i]);
		forget(said[NODES + i]); rows = false
	   }
	:: d_step { said[NODES + i].kind -> forget(said[NODES + i]) }	/* or never */
	:: d_step { zombie(2*i + 1) -> end_session(2*i + 1) }	/* a closed socket is noticed */
	:: d_step { zombie(2*i + 2) -> end_session(2*i + 2) }
	:: d_step { n[i].watch && !n[i].got && up[n[i].line] && holder[n[i].watch] == 0 ->	/* await.sql */
		holder[n[i].watch] = n[i].line; n[i].got = true; due[i] = true;
		printf("db: M%d is given the lock that it waits for\n", ID)
	   }
	:: d_step { effect[i].term ->	/* state/write.sql, seal.sql: written, under the term */
		if
		:: fence(effect[i]) && version(effect[i]) ->
			printf("db: an effect of term %d\n", effect[i].term);
			assert(NO_OLDER_EFFECT || effect[i].term >= newest_effect);
			newest_effect = effect[i].term;
			state_term = effect[i].term; state_version++;
			if :: n[i].term == effect[i].term -> n[i].known = state_version :: else fi
		:: else
		fi;
		effect[i].term = 0; effect[i].known = 0; effect[i].seal = false
	   }
	od
}

/* ================= Time and faults ================= */

#define pass(x) if :: x > 0 -> x-- :: else fi

/* A tick of every clock at once. */
proctype Clock() {
	byte i;
end:	do
#if CALM
	/* In calm everybody is prompt: time passes when there is nothing else to do. */
	:: atomic { !calm || (timeout && calm_ticks < CALM) ->
		if
		:: calm -> calm_ticks++
		:: else
		fi;
		assert(A_LEADER_APPEARS || calm_ticks < CALM || believes(0) || believes(1));
#else
	:: d_step { true ->
#endif
		i = 0;
		do
		:: i < NODES ->
			pass(n[i].trust); pass(n[i].sent);
			if :: n[i].term == 0 -> pass(n[i].obs) :: else fi;
			due[i] = calm;
			i++
		:: else -> i = 0; break
		od;
		if :: row.age < LEASE -> row.age++ :: else fi;
		printf("-- tick\n")
	   }
	od
}

proctype Faults() {
	byte i;
end:	do
	:: d_step { !calm && kills && n[0].line && up[n[0].line] -> i = 0; kills--;
		printf("!! M1's connection is killed\n"); end_session(n[0].line) }
	:: d_step { !calm && kills && n[1].line && up[n[1].line] -> i = 1; kills--;
		printf("!! M2's connection is killed\n"); end_session(n[1].line); i = 0 }
	:: d_step { !calm && restarts -> restarts--;
		printf("!! the database restarts\n");
		if :: row.lock && holder[row.lock] -> vanished = row.lock :: else fi;
		k = 1;
		do
		:: k <= CONNS -> up[k] = false; k++
		:: else -> break
		od;
		k = 1;
		do
		:: k <= NONCES -> holder[k] = 0; k++
		:: else -> k = 0; break
		od;
		forget(said[NODES]); forget(said[NODES + 1]);
#if NODES > 2
		forget(said[NODES + 2])
#endif
	   }
	:: d_step { !calm && jumps -> jumps--; row.age = LEASE; printf("!! the database's clock jumps ahead\n") }
	:: d_step { !calm && jumps -> jumps--; row.age = GONE_BACK; printf("!! the database's clock is set back\n") }
	:: d_step { !calm && restores && row.term > 1 -> restores--;
		printf("!! an older row is put back\n");
		row.term--; row.owner = winner[row.term]; row.beat = 0; row.nonce = 0; row.lock = 0; row.conn = 0;
		row.resigned = false; row.age = LEASE
	   }
	:: d_step { !calm && crashes && !dead[0] -> crashes--; dead[0] = true;
		printf("!! M1 is killed\n"); n[0].term = 0; n[0].line = 0; n[0].lost = false; n[0].watch = 0; n[0].got = false }
	:: d_step { !calm && crashes && !dead[1] -> crashes--; dead[1] = true;
		printf("!! M2 is killed\n"); n[1].term = 0; n[1].line = 0; n[1].lost = false; n[1].watch = 0; n[1].got = false }
#if CALM
	:: d_step { !calm -> calm = true; losses = 0; kills = 0; restarts = 0; silences = 0; crashes = 0;
		resigns = 0; writes = 0; jumps = 0; restores = 0; printf("!! calm from here on\n") }
#endif
	od
}

/* ================= A node ================= */

#define max(a, b) ((a) > (b) -> (a) : (b))

/* Close the pinned connection. The server will notice, which matters if the row names
   a lock of it, or if a statement is under way on it; if not, at once is as good. */
inline close_line() {
	if
	:: n[i].line && !(row.lock && holder[row.lock] == n[i].line) && said[NODES + i].conn != n[i].line -> end_session(n[i].line)
	:: else
	fi;
	n[i].line = 0; n[i].lost = false; n[i].lock = 0; n[i].watch = 0; n[i].got = false
}

#define can_open (!up[2*i + 1] || !up[2*i + 2])

inline open_line() {
	n[i].line = (up[2*i + 1] -> 2*i + 2 : 2*i + 1);
	up[n[i].line] = true
}

/* 5. Draw a nonce, and take the lock of that name, which nobody can know: take.sql.
   Drawn is the first that nobody knows of: fresh ones are all alike. */
#define knows(j, x) (n[j].fresh == x || n[j].lock == x || n[j].watch == x || n[j].r.nonce == x || n[j].r.lock == x)
#define says(j, x)  (said[j].nonce == x || said[j].lock == x || said[j].fresh == x)
#if NODES > 2
#define third(x)    (knows(2, x) || says(4, x) || says(5, x))
#else
#define third(x)    false
#endif
#define in_use(x)   (row.nonce == x || row.lock == x || holder[x] || vanished == x || knows(0, x) || knows(1, x) || \
		     says(0, x) || says(1, x) || says(2, x) || says(3, x) || third(x))
inline prepare() {
	k = 1;
	do
	:: k < NONCES && in_use(k) -> k++
	:: else -> break
	od;
	assert(!in_use(k));
	n[i].fresh = k; k = 0;
#ifndef TAKEOVER_LEASE
	holder[n[i].fresh] = n[i].line
#endif
}

/* elector.endLeadership: the term is never led again. */
inline leave() {
	n[i].left = max(n[i].left, n[i].term);
	n[i].term = 0; n[i].trust = 0; n[i].beat = 0; n[i].known = 0
}

/* 1. Read the row; a change of (term, beat) restarts the observation. look.sql */
inline look() {
	if
	:: n[i].r.owner == row.owner && n[i].r.term == row.term && n[i].r.beat == row.beat
	:: else -> n[i].obs = LEASE + OVERDUE
	fi;
	n[i].r.owner = row.owner; n[i].r.term = row.term; n[i].r.beat = row.beat; n[i].r.nonce = row.nonce;
	n[i].r.lock = row.lock; n[i].r.conn = row.conn; n[i].r.resigned = row.resigned;
	n[i].seen = max(n[i].seen, row.term)
}

/* Send a statement that names the row as read. */
inline say(what) {
	said[i].kind = what; said[i].owner = n[i].r.owner; said[i].term = n[i].r.term; said[i].nonce = n[i].r.nonce;
	said[i].fresh = n[i].fresh; said[i].conn = n[i].line; said[i].seen = n[i].seen;
	if
	:: what == expired || what == overdue || what == repark -> said[i].beat = n[i].r.beat
	:: else
	fi;
	if
	:: what == killed || what == repark -> said[i].lock = n[i].r.lock
	:: else
	fi
}

/* Wait for the answer, or for its loss. What is given up may still land later. */
inline hear() {
	if
	:: answer[i] && !dead[i] -> heard = answer[i]
	:: said[i].kind && said[i].conn && !up[said[i].conn] -> heard = no_answer	/* the connection broke */
	:: said[i].kind == renew && n[i].trust == 0 -> heard = no_answer		/* its deadline */
	:: losses -> losses--; heard = no_answer; printf("M%d: no answer\n", ID)
	:: dead[i] -> heard = no_answer
	fi;
	answer[i] = 0;
	if
	:: can_land(said[i]) ->
		said[NODES + i].kind = said[i].kind; said[NODES + i].owner = said[i].owner;
		said[NODES + i].term = said[i].term; said[NODES + i].nonce = said[i].nonce;
		said[NODES + i].beat = said[i].beat; said[NODES + i].lock = said[i].lock;
		said[NODES + i].fresh = said[i].fresh; said[NODES + i].seen = said[i].seen;
#ifndef TAKEOVER_LEASE
		said[NODES + i].conn = said[i].conn
#endif
	:: else
	fi;
	forget(said[i])
}

/* 7. Lead a term, if it was not promised away and trust has not passed already. */
inline begin(NUMBER, AT) {
	n[i].seen = max(n[i].seen, NUMBER);
	if
	:: NUMBER > n[i].left && in_time(i) ->
		n[i].term = NUMBER; n[i].trust = trust_of(i); n[i].beat = AT; n[i].lock = n[i].fresh; n[i].lost = false;
		printf("M%d: leads term %d\n", ID, NUMBER);
		if
		:: n[i].watch -> holder[n[i].watch] = 0; n[i].watch = 0; n[i].got = false	/* release.sql */
		:: else
		fi;
		n[i].r.owner = 0; n[i].r.term = 0; n[i].r.beat = 0; n[i].r.nonce = 0; n[i].r.lock = 0; n[i].r.conn = 0;
		n[i].r.resigned = false; n[i].obs = LEASE + OVERDUE;
		assert(PROMISE_KEPT || NUMBER > promised[i]);
#ifndef READOPT
		assert(TERMS_RISE || NUMBER > last_led[i]);
#endif
		last_led[i] = NUMBER;
#if RESTORES == 0
		assert(ONE_OWNER_PER_TERM || winner[NUMBER] == ID);
#endif
		check_overlap()
	:: else ->
		printf("M%d: term %d was won too late, or promised away\n", ID, NUMBER);
		n[i].left = max(n[i].left, NUMBER); close_line()
	fi
}

/* 3. Park by the leader's lock, if on this very connection the leader is seen to
   hold it. That is the evidence: in this life of this server. used.sql, await.sql */
#ifdef NO_EVIDENCE
#define evidence true
#else
#ifdef EVIDENCE_KEPT
#define evidence (holder[n[i].r.lock] == n[i].r.conn || kept == n[i].r.lock)
#else
#define evidence (holder[n[i].r.lock] == n[i].r.conn)
#endif
#endif
inline stand_by() {
	if
	:: n[i].watch && n[i].watch == n[i].r.lock && up[n[i].line]	/* parked already */
	:: else ->
		if :: n[i].got && holder[n[i].watch] == n[i].line -> holder[n[i].watch] = 0 :: else fi;
		close_line();
		if
		:: n[i].r.lock && n[i].r.owner && n[i].r.owner != ID && can_open && evidence ->
			open_line();
			n[i].watch = n[i].r.lock;
#ifdef EVIDENCE_KEPT
			kept = n[i].r.lock
#endif
		:: else
		fi
	fi
}

/* 4c. Ask at the leader's port: elector.ConfirmLeading. Alive is said by who leads that
   term and trusts itself, and makes it park anew if the lock is its own; stopped is
   a promise. Silence counts as stopped. */
inline ask(WHOM) {
	if
	:: dead[WHOM] -> printf("M%d: M%d's port refuses\n", ID, WHOM + 1)
	:: !dead[WHOM] && silences ->
		silences--; unanswered = n[i].r.term;
		printf("M%d: M%d is silent\n", ID, WHOM + 1)
	:: !dead[WHOM] ->
		if
		:: n[WHOM].term == n[i].r.term && n[WHOM].trust > 0 ->
			printf("M%d: M%d says that it is alive\n", ID, WHOM + 1);
#ifndef NO_DOUBT
			if :: n[WHOM].lock == n[i].watch -> n[WHOM].lost = true :: else fi;
#endif
			if :: holder[n[i].watch] == n[i].line -> holder[n[i].watch] = 0 :: else fi;
			close_line();
			ground = 0
		:: else ->
			printf("M%d: M%d promises that it has stopped leading term %d\n", ID, WHOM + 1, n[i].r.term);
			promised[WHOM] = max(promised[WHOM], n[i].r.term);
#ifndef NO_PROMISE
			n[WHOM].left = max(n[WHOM].left, n[i].r.term);
			n[WHOM].seen = max(n[WHOM].seen, n[i].r.term);
			if
			:: n[WHOM].term && n[WHOM].term <= n[i].r.term ->
				n[WHOM].term = 0; n[WHOM].trust = 0; n[WHOM].beat = 0; n[WHOM].known = 0
			:: else
			fi
#endif
		fi
	fi
}

#define behind    (n[i].r.term < n[i].seen)	/* the store was set back */
#define nobodys   (n[i].r.resigned || n[i].r.owner == 0)
#define mine      (n[i].r.owner == ID)
#define alive     (!dead[i])
#define in_turn   (!calm || due[i])
#define terms_left (within(n[i].r.term, TERMS) && within(n[i].seen, TERMS))

/* Each step of a node looks, decides and sends at one moment: what may come between
   these may as well come after the sending, before the statement lands. */
proctype Node(byte i) {
	byte ground, t;
	mtype heard;
#ifdef EVIDENCE_KEPT
	byte kept;
#endif
end:	do
	:: dead[i] -> break

	/* ---- Leading ---- */

	/* Trust has passed: stop for good. */
	:: atomic { n[i].term && n[i].trust == 0 && alive -> leave(); close_line(); printf("M%d: trust has ended\n", ID) }

	/* The reader on the connection sees that it is gone: suspended. */
	:: atomic { n[i].line && !up[n[i].line] && !n[i].lost && n[i].term && alive -> n[i].lost = true;
		printf("M%d: suspended\n", ID) }

	/* Renewal, on the connection that holds the witness: renew.sql */
	:: atomic { n[i].term && n[i].trust && !n[i].lost && within(n[i].beat, BEATS) && in_turn && alive ->
		due[i] = false;
		t = n[i].term;
		said[i].kind = renew; said[i].term = t; said[i].beat = n[i].beat; said[i].conn = n[i].line;
		n[i].sent = LEASE };
		atomic { hear();
		if
		:: n[i].term != t || trust_over(i) || dead[i]	/* ended meanwhile: what is heard is of no use */
		:: else ->
			if
			:: heard == one_row -> n[i].beat++; n[i].trust = trust_of(i); check_overlap()
			:: heard == no_row -> printf("M%d: deposed\n", ID); leave(); close_line()
			:: heard == no_answer -> close_line(); n[i].lost = true; printf("M%d: suspended\n", ID)
			fi
		fi;
		n[i].sent = 0; t = 0; heard = 0 }

	/* Suspended: park anew. Look, and then one statement that names the old witness. */
	:: atomic { n[i].term && n[i].trust && n[i].lost && within(n[i].beat, BEATS) && in_turn && alive ->
		due[i] = false;
		t = n[i].term;
		close_line(); n[i].lost = true;
		goto park };
		/* reacquire.sql */
park:		atomic {
		look();
		if
		:: n[i].r.owner != ID || n[i].r.term != t ->
			printf("M%d: deposed\n", ID);
			if :: n[i].term == t -> leave() :: else fi;
			close_line(); goto over
		:: else
		fi };
		/* Time may pass between the look and the sending: trust counts from the sending only. */
		atomic {
		if
		:: can_open && alive -> open_line(); prepare(); say(repark); n[i].sent = LEASE
		:: else -> goto over
		fi };
		atomic { hear();
		if
		:: heard == one_row && n[i].term == t && !trust_over(i) && in_time(i) ->
			n[i].beat = n[i].r.beat + REPARK_BY; n[i].trust = trust_of(i); n[i].lock = n[i].fresh; n[i].lost = false;
			check_overlap()
		:: heard == one_row && n[i].term == 0 -> begin(t, n[i].r.beat + REPARK_BY)	/* a win that was not heard */
		:: else -> close_line(); n[i].lost = (n[i].term == t)
		fi;
		goto over }

	/* Act: the check, then the statement, which may take as long as it likes. */
	:: atomic { writes && believes(i) && !effect[i].term && alive -> writes--;
		effect[i].term = n[i].term; effect[i].known = n[i].known; effect[i].seal = (n[i].known == 0) }

	/* Resign, when Lead has returned: resign.sql; twice, if the first is not heard of. */
	:: atomic { resigns && believes(i) && alive -> resigns--; t = n[i].term; leave();
		printf("M%d: resigns\n", ID);
		said[i].kind = resign; said[i].term = t; said[i].conn = n[i].line };
		atomic { hear(); close_line();
		if
		:: heard == no_answer && alive -> said[i].kind = resign; said[i].term = t
		:: else -> goto over
		fi };
		atomic { hear(); goto over }

	/* ---- Following ---- */

	/* A round. 1. Look. 2 and 4. Entitled? */
	:: atomic { n[i].term == 0 && in_turn && alive ->
		due[i] = false;
		if :: !n[i].watch -> close_line() :: else fi;	/* of a term that is over */
		look();
		if
#ifdef READOPT
		:: mine -> n[i].left = 0; n[i].fresh = n[i].r.lock; n[i].sent = LEASE; t = n[i].r.term; begin(t, n[i].r.beat); goto over
#else
		:: mine && (!behind || observed(i)) -> ground = own
#endif
		:: nobodys && (!behind || observed(i)) -> ground = vacant
		:: !mine && !nobodys && observed(i) && old_enough -> ground = expired
		:: !mine && !nobodys && n[i].obs == 0 -> ground = overdue
#ifndef TAKEOVER_LEASE
		:: !mine && !nobodys && !(observed(i) && old_enough) && n[i].obs && n[i].got && n[i].watch == n[i].r.lock -> ground = killed
#endif
		:: else -> goto stand
		fi;
#if !defined(NO_QUESTION) && !defined(TAKEOVER_LEASE)
		if
		:: ground == killed -> ask(n[i].r.owner - 1); if :: ground :: else -> goto over fi
		:: else
		fi;
#endif
		/* 5 and 6. Prepare; compare and swap. */
		if
		:: terms_left && (n[i].got && n[i].watch || can_open) ->
			if
			:: n[i].got
			:: else -> close_line(); open_line()
			fi;
			prepare(); say(ground);
			t = max(n[i].r.term, n[i].seen) + 1;
			n[i].sent = LEASE;
			printf("M%d: competes for term %d, ground %e\n", ID, t, ground)
		:: else -> goto over
		fi };
		atomic { hear();
		if
		:: heard == one_row -> begin(t, 0); goto over
		:: heard == no_row ->					/* lost: a result */
			if :: n[i].got && holder[n[i].fresh] == n[i].line -> holder[n[i].fresh] = 0 :: else -> close_line() fi;
			look(); goto stand
		:: heard == no_answer ->				/* the outcome is unknown: what does the row say? */
			close_line();
			if :: dead[i] -> goto over :: else fi;
#ifdef LED_UNHEARD
			begin(t, 0);
#else
#ifndef NO_REREAD
			look();
			if
			:: n[i].r.nonce == n[i].fresh -> t = n[i].r.term; ground = 0; heard = 0; n[i].fresh = 0; goto park
			:: else
			fi;
#endif
#endif
			goto over
		fi };
stand:		atomic {
#ifndef TAKEOVER_LEASE
		stand_by();
#endif
		goto over };
over:		atomic { ground = 0; n[i].fresh = 0; n[i].sent = 0; t = 0; heard = 0 }
	od
}

/* The run begins with M1 leading term 1, or with the seeded row (seed.sql). */
init {
	d_step {
#ifndef FROM_NOTHING
		row.owner = 1; row.term = 1; row.nonce = 1;
		n[0].term = 1; n[0].trust = LEASE; n[0].seen = 1; n[0].line = 1; up[1] = true;
#ifndef TAKEOVER_LEASE
		row.lock = 1; row.conn = 1; holder[1] = 1; n[0].lock = 1;
#endif
		winner[1] = 1; last_led[0] = 1;
#endif
		k = 0;
		do
		:: k < NODES -> n[k].obs = LEASE + OVERDUE; k++
		:: else -> k = 0; break
		od
	};
	atomic { run Node(0); run Node(1);
#if NODES > 2
		run Node(2); run Server(2);
#endif
		run Server(0); run Server(1); run Clock(); run Faults() }
}
