/*
 * The election as a model for Spin. elector/doc.go and elector/termcas/doc.go
 * describe the same protocol in prose; the numbers 1 to 7 below are theirs.
 * README.md lists what is left out, and the results. ./run checks the model.
 *
 * There is one row in one database and NODES nodes that compete for it.
 * Statements may be lost, late, or executed without an answer; the server may
 * end connections without notice, and may restart; a leader's port may not
 * answer; and time may pass between any two steps of any node, which models a
 * pause.
 *
 * Each guard of the protocol can be removed with -D; ./run lists them.
 */

/* ---- The bounds of a run; ./run sets them with -D. ---- */

#ifndef NODES
#define NODES    2
#endif
#ifndef TERMS
#define TERMS    3	/* no node competes for a higher term than this */
#endif
#ifndef BEATS
#define BEATS    2	/* renewals in a term; reacquiring the witness counts as two */
#endif
#ifndef LEASE
#define LEASE    1	/* ticks; the margin is 0, because all clocks of the model run at one speed */
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
#define SILENCES 0	/* queries that a living leader does not answer in time */
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
#define RESTORES 0	/* an older row is restored from a backup */
#endif

#ifndef CALM
#define CALM     0	/* ticks without faults after which a node must lead; 0: not checked */
#endif

#define OVERDUE  1	/* ticks after the lease when the database's clock is ignored:
			   the protocol waits two leases more, and is as safe with less */
#if CALM
#define SPARE    3	/* terms and beats that are kept for the calm after the faults */
#else
#define SPARE    0
#endif
#define within(x, limit) (x < limit + (calm -> SPARE : 0))
#define NONCES   (5*NODES)	/* enough: a nonce that is stored nowhere any more is drawn again */
#define CONNS    (2*NODES)	/* a node's connection, and one that it has given up */

/* ---- Names. ---- */

mtype = { vacant, own, expired, overdue, killed,	/* reasons to compete, sql/lock/win_*.sql */
	  renew, reacquire, resign,			/* sql/lock/renew.sql, reacquire.sql, resign.sql */
	  one_row, no_row, no_answer };			/* the result of a statement */

#define ID       (i + 1)	/* node i in the row and in the output: M1, M2; 0 is no node */

/* The lock row: sql/schema/001_distribute_lock.sql. Named locks are "cv:" + nonce,
   so a lock's name is the nonce here; 0 is NULL. age counts ticks since
   gmt_modified by the database's clock and stops at LEASE; GONE_BACK is an age that
   is never enough. */
typedef Row { byte owner, term, beat, nonce, lock, conn, age; bool resigned }
#define GONE_BACK 255

Row row;
byte holder[NONCES + 1];	/* the connection that holds the lock of this nonce; 0: free */
bool up[CONNS + 1];		/* the server has this session */

/* A statement that was sent, with the values in its SET and WHERE. */
typedef Statement { mtype kind; byte owner, term, nonce, beat, lock, fresh, conn, seen }

Statement stmt[2 * NODES];	/* [i]: node i waits for its answer; [NODES+i]: given up, may still be executed */
mtype answer[NODES];		/* an answer that was sent to node i; 0: none */

/* A node: elector.state and termcas.Strategy. */
typedef NodeState {
	byte term;	/* the term it leads; 0: none */
	byte trust;	/* ticks for which it trusts itself */
	byte sent;	/* the trust that the present statement will give: counted from when it was sent */
	byte fresh;	/* the nonce that it carries */
	byte beat;	/* of the term it leads */
	byte lock;	/* its witness */
	byte pinned;	/* the pinned connection; 0: none */
	bool lost;	/* ... is known or suspected to be broken: suspended */
	byte left;	/* terms up to this are never led (again) */
	byte seen;	/* the highest term seen anywhere */
	byte awaits;	/* the leader's lock that it waits for, having the evidence; 0: none */
	bool got;	/* ... and was given, on its line */
	byte obs;	/* ticks until (term, beat) was observed for LEASE + OVERDUE */
	byte known;	/* the version of the cluster state that it would replace */
	Row r		/* the row as last read */
}
NodeState n[NODES];
bool dead[NODES];

/* The cluster state, one kind: sql/state/write.sql and seal.sql. */
byte state_term, state_version;
typedef Effect { byte term, known; bool seal }
Effect effect[NODES];

/* The faults that are left; calm: no more faults occur. */
byte losses = LOSSES, kills = KILLS, restarts = RESTARTS, silences = SILENCES,
     crashes = CRASHES, resigns = RESIGNS, writes = WRITES, jumps = JUMPS, restores = RESTORES;
bool calm;
byte calm_ticks;
bool due[NODES];	/* when calm, a node runs one round a tick, and one when it is woken */

/* ---- The properties, and variables that only they read. ---- */

bool ONE_OWNER_PER_TERM, TERMS_RISE, NO_OLDER_EFFECT, NO_OVERLAP, PROMISE_KEPT,
	    RESTART_COSTS_NO_TERM, A_LEADER_APPEARS;	/* always false: they give Spin's message a name */

byte winner[TERMS + SPARE + 1];	/* the owner of the row in this term */
byte last_led[NODES];
byte promised[NODES];		/* the node has promised not to lead terms up to this */
byte newest_effect;
byte unanswered;		/* the term whose leader did not answer, and has not reacquired its witness since */
byte vanished;			/* the lock that was held when the database restarted */

/* elector.Leading: the check before an act. */
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
#define leads(i) (n[i].term && trusts(i) && !suspended(i))

/* Two nodes that believe they lead. With takeover=lease this must not occur.
   With takeover=witness it may, if the older leader did not answer when it was
   asked and has not yet noticed that its connection has ended. */
#if RESTORES
#define allowed(i, j) true	/* nothing is promised when the row is restored */
#elif defined(TAKEOVER_LEASE)
#define allowed(i, j) false
#else
#define allowed(i, j) (n[i].term == unanswered && !n[i].lost || n[j].term == unanswered && !n[j].lost)
#endif
#define overlap(i, j) (leads(i) && leads(j) && !allowed(i, j))

inline check_overlap() {
	assert(NO_OVERLAP || !overlap(0, 1));
#if NODES > 2
	assert(NO_OVERLAP || !(overlap(0, 2) || overlap(1, 2)));
#endif
}

/* ---- The guards that ./run removes. ---- */

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

/* win_*.sql: CONNECTION_ID, IS_USED: the lock that is published is held. */
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
/* 4b: the node has seen this (term, beat) for a lease, by its own clock. */
#ifdef NO_OBSERVATION
#define observed(i) true
#else
#define observed(i) (n[i].obs <= OVERDUE)
#endif

/* win_witness.sql: the leader's lock as read, held by this node. */
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
#ifdef VACANT_NO_REASON
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
#ifdef REACQUIRE_NO_OWNER
#define reacquire_owner true
#else
#define reacquire_owner (row.owner == ID)
#endif
#ifdef REACQUIRE_NO_TERM
#define reacquire_term(s) true
#else
#define reacquire_term(s) (row.term == s.term)
#endif
#ifdef REACQUIRE_NO_LOCK
#define reacquire_lock(s) true
#else
#define reacquire_lock(s) (row.lock == s.lock)
#endif
#ifdef REACQUIRE_NO_BEAT
#define reacquire_beat(s) true
#else
#define reacquire_beat(s) (row.beat == s.beat || row.beat == s.beat + 1)
#endif
#ifdef REACQUIRE_PLUS_ONE
#define REACQUIRE_BY 1
#else
#define REACQUIRE_BY 2
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

/* Trust that has ended stays ended: a later answer is ignored. */
#ifdef RESURRECTED
#define trust_over(i) false
#else
#define trust_over(i) (n[i].trust == 0)
#endif


byte k; bool rows;	/* temporary within one step, 0 between steps */

/* ================= The database ================= */

/* A win for any reason: the SET of win_*.sql. */
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
	:: s.kind == reacquire  && reacquire_owner && reacquire_term(s) && reacquire_lock(s) && reacquire_beat(s) && holds_fresh(s) ->
		rows = true; row.beat = s.beat + REACQUIRE_BY; row.age = 0;
#ifndef TAKEOVER_LEASE
		row.lock = s.fresh; row.conn = s.conn;
#endif
		if
		:: unanswered == s.term -> unanswered = 0	/* a sign of life */
		:: else
		fi;
		printf("db: M%d reacquires its witness: beat %d of term %d\n", ID, row.beat, row.term)
	:: s.kind == resign  && resign_owner && resign_term(s) ->
		rows = true; row.owner = 0; row.resigned = true; row.lock = 0; row.conn = 0; row.age = 0;
		printf("db: M%d's resignation: term %d has no owner\n", ID, row.term)
	:: else
		-> printf("db: M%d's %e changes no row\n", ID, s.kind)
	fi
}

inline clear(s) {
	s.kind = 0; s.owner = 0; s.term = 0; s.nonce = 0; s.beat = 0; s.lock = 0; s.fresh = 0; s.conn = 0; s.seen = 0
}

/* The server ends a session: its locks are freed, and a statement that was given
   up on it is not executed. */
inline end_session(c) {
	up[c] = false;
	k = 1;
	do
	:: k <= NONCES -> if :: holder[k] == c -> holder[k] = 0 :: else fi; k++
	:: else -> k = 0; break
	od;
	if :: stmt[NODES + i].conn == c -> clear(stmt[NODES + i]) :: else fi
}

#define can_execute(s) (s.kind && (s.conn == 0 || up[s.conn]))
#define abandoned(c)   (up[c] && n[i].pinned != c)

/* What the server does for node i. */
proctype Server(byte i) {
end:	do
	:: d_step { can_execute(stmt[i]) && answer[i] == 0 ->	/* a statement is executed and answered */
		execute(stmt[i]);
		clear(stmt[i]);
		answer[i] = (rows -> one_row : no_row); rows = false
	   }
	:: d_step { can_execute(stmt[NODES + i]) ->	/* one that was given up is executed late */
		printf("db: late, given up by its sender:\n");
		execute(stmt[NODES + i]);
		clear(stmt[NODES + i]); rows = false
	   }
	:: d_step { stmt[NODES + i].kind -> clear(stmt[NODES + i]) }	/* or never */
	:: d_step { abandoned(2*i + 1) -> end_session(2*i + 1) }	/* the server notices a closed socket */
	:: d_step { abandoned(2*i + 2) -> end_session(2*i + 2) }
	:: d_step { n[i].awaits && !n[i].got && up[n[i].pinned] && holder[n[i].awaits] == 0 ->	/* await.sql */
		holder[n[i].awaits] = n[i].pinned; n[i].got = true; due[i] = true;
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
	/* When calm, no node is slow: time passes only if no other step is possible. */
	:: atomic { !calm || (timeout && calm_ticks < CALM) ->
		if
		:: calm -> calm_ticks++
		:: else
		fi;
		assert(A_LEADER_APPEARS || calm_ticks < CALM || leads(0) || leads(1));
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
	:: d_step { !calm && kills && n[0].pinned && up[n[0].pinned] -> i = 0; kills--;
		printf("!! M1's connection is killed\n"); end_session(n[0].pinned) }
	:: d_step { !calm && kills && n[1].pinned && up[n[1].pinned] -> i = 1; kills--;
		printf("!! M2's connection is killed\n"); end_session(n[1].pinned); i = 0 }
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
		clear(stmt[NODES]); clear(stmt[NODES + 1]);
#if NODES > 2
		clear(stmt[NODES + 2])
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
		printf("!! M1 is killed\n"); n[0].term = 0; n[0].pinned = 0; n[0].lost = false; n[0].awaits = 0; n[0].got = false }
	:: d_step { !calm && crashes && !dead[1] -> crashes--; dead[1] = true;
		printf("!! M2 is killed\n"); n[1].term = 0; n[1].pinned = 0; n[1].lost = false; n[1].awaits = 0; n[1].got = false }
#if CALM
	:: d_step { !calm -> calm = true; losses = 0; kills = 0; restarts = 0; silences = 0; crashes = 0;
		resigns = 0; writes = 0; jumps = 0; restores = 0; printf("!! calm from here on\n") }
#endif
	od
}

/* ================= A node ================= */

#define max(a, b) ((a) > (b) -> (a) : (b))

/* Close the pinned connection. The server notices later, which matters if the row
   names its lock, or if a statement on it was given up; otherwise the session
   ends at once. */
inline close_conn() {
	if
	:: n[i].pinned && !(row.lock && holder[row.lock] == n[i].pinned) && stmt[NODES + i].conn != n[i].pinned -> end_session(n[i].pinned)
	:: else
	fi;
	n[i].pinned = 0; n[i].lost = false; n[i].lock = 0; n[i].awaits = 0; n[i].got = false
}

#define can_open (!up[2*i + 1] || !up[2*i + 2])

inline open_conn() {
	n[i].pinned = (up[2*i + 1] -> 2*i + 2 : 2*i + 1);
	up[n[i].pinned] = true
}

/* 5. Draw a nonce and take the lock of that name, which no other node can know:
   take.sql. The first nonce that is stored nowhere is drawn; it makes no
   difference which. */
#define in_node(j, x) (n[j].fresh == x || n[j].lock == x || n[j].awaits == x || n[j].r.nonce == x || n[j].r.lock == x)
#define in_stmt(j, x)  (stmt[j].nonce == x || stmt[j].lock == x || stmt[j].fresh == x)
#if NODES > 2
#define in_third(x)    (in_node(2, x) || in_stmt(4, x) || in_stmt(5, x))
#else
#define in_third(x)    false
#endif
#define in_use(x)   (row.nonce == x || row.lock == x || holder[x] || vanished == x || in_node(0, x) || in_node(1, x) || \
		     in_stmt(0, x) || in_stmt(1, x) || in_stmt(2, x) || in_stmt(3, x) || in_third(x))
inline prepare() {
	k = 1;
	do
	:: k < NONCES && in_use(k) -> k++
	:: else -> break
	od;
	assert(!in_use(k));
	n[i].fresh = k; k = 0;
#ifndef TAKEOVER_LEASE
	holder[n[i].fresh] = n[i].pinned
#endif
}

/* elector.endLeadership: the node never leads the term again. */
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
inline send(what) {
	stmt[i].kind = what; stmt[i].owner = n[i].r.owner; stmt[i].term = n[i].r.term; stmt[i].nonce = n[i].r.nonce;
	stmt[i].fresh = n[i].fresh; stmt[i].conn = n[i].pinned; stmt[i].seen = n[i].seen;
	if
	:: what == expired || what == overdue || what == reacquire -> stmt[i].beat = n[i].r.beat
	:: else
	fi;
	if
	:: what == killed || what == reacquire -> stmt[i].lock = n[i].r.lock
	:: else
	fi
}

/* Wait for the answer or for its loss. A statement that is given up may still be
   executed later. */
inline await_answer() {
	if
	:: answer[i] && !dead[i] -> result = answer[i]
	:: stmt[i].kind && stmt[i].conn && !up[stmt[i].conn] -> result = no_answer	/* the connection broke */
	:: stmt[i].kind == renew && n[i].trust == 0 -> result = no_answer		/* its deadline */
	:: losses -> losses--; result = no_answer; printf("M%d: no answer\n", ID)
	:: dead[i] -> result = no_answer
	fi;
	answer[i] = 0;
	if
	:: can_execute(stmt[i]) ->
		stmt[NODES + i].kind = stmt[i].kind; stmt[NODES + i].owner = stmt[i].owner;
		stmt[NODES + i].term = stmt[i].term; stmt[NODES + i].nonce = stmt[i].nonce;
		stmt[NODES + i].beat = stmt[i].beat; stmt[NODES + i].lock = stmt[i].lock;
		stmt[NODES + i].fresh = stmt[i].fresh; stmt[NODES + i].seen = stmt[i].seen;
#ifndef TAKEOVER_LEASE
		stmt[NODES + i].conn = stmt[i].conn
#endif
	:: else
	fi;
	clear(stmt[i])
}

/* 7. Lead a term, unless it was promised away or trust has ended already. */
inline begin(NUMBER, AT) {
	n[i].seen = max(n[i].seen, NUMBER);
	if
	:: NUMBER > n[i].left && in_time(i) ->
		n[i].term = NUMBER; n[i].trust = trust_of(i); n[i].beat = AT; n[i].lock = n[i].fresh; n[i].lost = false;
		printf("M%d: leads term %d\n", ID, NUMBER);
		if
		:: n[i].awaits -> holder[n[i].awaits] = 0; n[i].awaits = 0; n[i].got = false	/* release.sql */
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
		n[i].left = max(n[i].left, NUMBER); close_conn()
	fi
}

/* 3. Wait for the leader's lock, if on this very connection the leader is seen to
   hold it. That is the evidence: since the last start of this server the leader
   has held it. used.sql, await.sql */
#ifdef NO_EVIDENCE
#define evidence true
#else
#ifdef EVIDENCE_KEPT
#define evidence (holder[n[i].r.lock] == n[i].r.conn || kept == n[i].r.lock)
#else
#define evidence (holder[n[i].r.lock] == n[i].r.conn)
#endif
#endif
inline wait_for_witness() {
	if
	:: n[i].awaits && n[i].awaits == n[i].r.lock && up[n[i].pinned]	/* it waits already */
	:: else ->
		if :: n[i].got && holder[n[i].awaits] == n[i].pinned -> holder[n[i].awaits] = 0 :: else fi;
		close_conn();
		if
		:: n[i].r.lock && n[i].r.owner && n[i].r.owner != ID && can_open && evidence ->
			open_conn();
			n[i].awaits = n[i].r.lock;
#ifdef EVIDENCE_KEPT
			kept = n[i].r.lock
#endif
		:: else
		fi
	fi
}

/* 4c. Ask at the leader's port: elector.ConfirmLeading. A node that leads the term
   and trusts itself confirms it, and reacquires its witness if the lock was its own;
   any other promises never to lead it. No answer confirms nothing. */
inline ask(WHOM) {
	if
	:: dead[WHOM] -> printf("M%d: M%d's port refuses\n", ID, WHOM + 1)
	:: !dead[WHOM] && silences ->
		silences--; unanswered = n[i].r.term;
		printf("M%d: M%d is silent\n", ID, WHOM + 1)
	:: !dead[WHOM] ->
		if
		:: n[WHOM].term == n[i].r.term && n[WHOM].trust > 0 ->
			printf("M%d: M%d confirms its term\n", ID, WHOM + 1);
#ifndef NO_DOUBT
			if :: n[WHOM].lock == n[i].awaits -> n[WHOM].lost = true :: else fi;
#endif
			if :: holder[n[i].awaits] == n[i].pinned -> holder[n[i].awaits] = 0 :: else fi;
			close_conn();
			reason = 0
		:: else ->
			printf("M%d: M%d promises never to lead term %d\n", ID, WHOM + 1, n[i].r.term);
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

#define set_back    (n[i].r.term < n[i].seen)	/* the row was restored to an older one */
#define no_owner   (n[i].r.resigned || n[i].r.owner == 0)
#define mine      (n[i].r.owner == ID)
#define alive     (!dead[i])
#define in_turn   (!calm || due[i])
#define terms_left (within(n[i].r.term, TERMS) && within(n[i].seen, TERMS))

/* Each step of a node looks, decides and sends at one moment: what may happen
   between these may as well happen after the sending and before the statement is
   executed. */
proctype Node(byte i) {
	byte reason, t;
	mtype result;
#ifdef EVIDENCE_KEPT
	byte kept;
#endif
end:	do
	:: dead[i] -> break

	/* ---- Leading ---- */

	/* Trust has ended: leave the term. */
	:: atomic { n[i].term && n[i].trust == 0 && alive -> leave(); close_conn(); printf("M%d: trust has ended\n", ID) }

	/* The reader on the connection sees that it has ended: suspended. */
	:: atomic { n[i].pinned && !up[n[i].pinned] && !n[i].lost && n[i].term && alive -> n[i].lost = true;
		printf("M%d: suspended\n", ID) }

	/* Renewal, on the connection that holds the witness: renew.sql */
	:: atomic { n[i].term && n[i].trust && !n[i].lost && within(n[i].beat, BEATS) && in_turn && alive ->
		due[i] = false;
		t = n[i].term;
		stmt[i].kind = renew; stmt[i].term = t; stmt[i].beat = n[i].beat; stmt[i].conn = n[i].pinned;
		n[i].sent = LEASE };
		atomic { await_answer();
		if
		:: n[i].term != t || trust_over(i) || dead[i]	/* the term or its trust ended meanwhile: the result is ignored */
		:: else ->
			if
			:: result == one_row -> n[i].beat++; n[i].trust = trust_of(i); check_overlap()
			:: result == no_row -> printf("M%d: deposed\n", ID); leave(); close_conn()
			:: result == no_answer -> close_conn(); n[i].lost = true; printf("M%d: suspended\n", ID)
			fi
		fi;
		n[i].sent = 0; t = 0; result = 0 }

	/* Suspended: reacquire the witness. Look, and then send one statement that
	   names the old witness. */
	:: atomic { n[i].term && n[i].trust && n[i].lost && within(n[i].beat, BEATS) && in_turn && alive ->
		due[i] = false;
		t = n[i].term;
		close_conn(); n[i].lost = true;
		goto regain };
		/* reacquire.sql */
regain:		atomic {
		look();
		if
		:: n[i].r.owner != ID || n[i].r.term != t ->
			printf("M%d: deposed\n", ID);
			if :: n[i].term == t -> leave() :: else fi;
			close_conn(); goto done
		:: else
		fi };
		/* Time may pass between the look and the sending: trust counts from the sending. */
		atomic {
		if
		:: can_open && alive -> open_conn(); prepare(); send(reacquire); n[i].sent = LEASE
		:: else -> goto done
		fi };
		atomic { await_answer();
		if
		:: result == one_row && n[i].term == t && !trust_over(i) && in_time(i) ->
			n[i].beat = n[i].r.beat + REACQUIRE_BY; n[i].trust = trust_of(i); n[i].lock = n[i].fresh; n[i].lost = false;
			check_overlap()
		:: result == one_row && n[i].term == 0 -> begin(t, n[i].r.beat + REACQUIRE_BY)	/* a win whose answer was lost */
		:: else -> close_conn(); n[i].lost = (n[i].term == t)
		fi;
		goto done }

	/* Act: the check, then the statement, which may take any time. */
	:: atomic { writes && leads(i) && !effect[i].term && alive -> writes--;
		effect[i].term = n[i].term; effect[i].known = n[i].known; effect[i].seal = (n[i].known == 0) }

	/* Resign when Lead has returned: resign.sql; again if the first has no answer. */
	:: atomic { resigns && leads(i) && alive -> resigns--; t = n[i].term; leave();
		printf("M%d: resigns\n", ID);
		stmt[i].kind = resign; stmt[i].term = t; stmt[i].conn = n[i].pinned };
		atomic { await_answer(); close_conn();
		if
		:: result == no_answer && alive -> stmt[i].kind = resign; stmt[i].term = t
		:: else -> goto done
		fi };
		atomic { await_answer(); goto done }

	/* ---- Following ---- */

	/* A round. 1. Look. 2 and 4. Is there a reason to compete? */
	:: atomic { n[i].term == 0 && in_turn && alive ->
		due[i] = false;
		if :: !n[i].awaits -> close_conn() :: else fi;	/* of a term that has ended */
		look();
		if
#ifdef READOPT
		:: mine -> n[i].left = 0; n[i].fresh = n[i].r.lock; n[i].sent = LEASE; t = n[i].r.term; begin(t, n[i].r.beat); goto done
#else
		:: mine && (!set_back || observed(i)) -> reason = own
#endif
		:: no_owner && (!set_back || observed(i)) -> reason = vacant
		:: !mine && !no_owner && observed(i) && old_enough -> reason = expired
		:: !mine && !no_owner && n[i].obs == 0 -> reason = overdue
#ifndef TAKEOVER_LEASE
		:: !mine && !no_owner && !(observed(i) && old_enough) && n[i].obs && n[i].got && n[i].awaits == n[i].r.lock -> reason = killed
#endif
		:: else -> goto follow
		fi;
#if !defined(NO_QUESTION) && !defined(TAKEOVER_LEASE)
		if
		:: reason == killed -> ask(n[i].r.owner - 1); if :: reason :: else -> goto done fi
		:: else
		fi;
#endif
		/* 5 and 6. Prepare; compare and swap. */
		if
		:: terms_left && (n[i].got && n[i].awaits || can_open) ->
			if
			:: n[i].got
			:: else -> close_conn(); open_conn()
			fi;
			prepare(); send(reason);
			t = max(n[i].r.term, n[i].seen) + 1;
			n[i].sent = LEASE;
			printf("M%d: competes for term %d, reason %e\n", ID, t, reason)
		:: else -> goto done
		fi };
		atomic { await_answer();
		if
		:: result == one_row -> begin(t, 0); goto done
		:: result == no_row ->					/* lost: a result */
			if :: n[i].got && holder[n[i].fresh] == n[i].pinned -> holder[n[i].fresh] = 0 :: else -> close_conn() fi;
			look(); goto follow
		:: result == no_answer ->				/* the outcome is unknown: read the row */
			close_conn();
			if :: dead[i] -> goto done :: else fi;
#ifdef LED_UNKNOWN
			begin(t, 0);
#else
#ifndef NO_REREAD
			look();
			if
			:: n[i].r.nonce == n[i].fresh -> t = n[i].r.term; reason = 0; result = 0; n[i].fresh = 0; goto regain
			:: else
			fi;
#endif
#endif
			goto done
		fi };
follow:		atomic {
#ifndef TAKEOVER_LEASE
		wait_for_witness();
#endif
		goto done };
done:		atomic { reason = 0; n[i].fresh = 0; n[i].sent = 0; t = 0; result = 0 }
	od
}

/* The run begins with M1 leading term 1, or with the seeded row (seed.sql). */
init {
	d_step {
#ifndef FROM_NOTHING
		row.owner = 1; row.term = 1; row.nonce = 1;
		n[0].term = 1; n[0].trust = LEASE; n[0].seen = 1; n[0].pinned = 1; up[1] = true;
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
