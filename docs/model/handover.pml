/*
 * The hand-over of a slot, as a model for Spin (data/doc.go, slot/doc.go and
 * session/registry/queue.go describe the same protocol in prose). README.md lists what is
 * left out, and has the results. ./run checks it.
 *
 * One slot and one registration. The arranger writes rows of the slot table; NODES
 * data nodes keep copies; two sessions write, read and answer diffs; one client
 * publishes, withdraws, moves and dies. Each step is atomic. Everything that may be
 * delayed is a step of its own: rows of the table, writes, feeds, diffs, reads.
 *
 * Each guard of the protocol can be removed with -D; ./run lists them.
 */

/* ---- The bounds of a run; ./run sets them with -D. ---- */

#ifndef NODES
#define NODES    2	/* D1 leads first, D2 follows it, D3 has no copy */
#endif
#define SESSIONS 2
#ifndef REPLICAS
#define REPLICAS 2
#endif
#ifndef VERSIONS
#define VERSIONS 2	/* odd: published; even: withdrawn. The run begins with version 1 stored */
#endif
#ifndef DRAINS
#define DRAINS   0	/* data nodes put on the blacklist */
#endif
#ifndef MOVES
#define MOVES    0	/* hand-overs for balance */
#endif
#ifndef CRASHES
#define CRASHES  0	/* data nodes killed */
#endif
#ifndef CUTS
#define CUTS     0	/* living data nodes that are evicted */
#endif
#ifndef SESSION_CRASHES
#define SESSION_CRASHES 0
#endif
#ifndef REPAIRS
#define REPAIRS  0	/* diffs of a slot that is served */
#endif
#ifndef LOSSES
#define LOSSES   0	/* answers lost: of writes, diffs, Finish */
#endif
#ifndef LATES
#define LATES    0	/* writes given up by their session, which may still be executed */
#endif
#ifndef SILENCES
#define SILENCES 0	/* hand-overs whose source is alive and does not answer in time */
#endif
#ifndef BREAKS
#define BREAKS   0	/* feeds that break */
#endif
#ifndef DROPS
#define DROPS    0	/* messages lost in a feed that does not break */
#endif
#ifndef WANDERS
#define WANDERS  0	/* moves of the client from a living session */
#endif
#ifndef DEATHS
#define DEATHS   0	/* the client dies */
#endif
#ifndef SLOW_READS
#define SLOW_READS 0	/* reads whose answer is counted later */
#endif

#define KEYS     3	/* a copy is that of (the registration, its owner): S1, S2, or no session */
#define NO_OWNER 2	/* ... whose copies are tombstones that hide older versions */
#define EPOCHS   10

/* ---- Names. ---- */

mtype = { stable, preparing, switching, crash,		/* slot.Phase */
	  migrating, serving, finished,			/* slot.ReportState */
	  finishing, applying, asking,			/* data.phase, of a migration */
	  put, removal, same }				/* what a write or an answer holds */

/* Nodes are 1 to NODES in rows and fields, and D1.. in the output; 0 is none. */
#define bit(x)       (1 << (x))
#define withdrawn(v) ((v) && (v) % 2 == 0)
#define live(v)      ((v) % 2)

/* The slot's row in the table as last written: slot.Slot. */
typedef Row { mtype phase; byte leader, epoch, succ, source, sepoch, foll }
Row t;
byte lead[EPOCHS];		/* the leader of each leader epoch: the node at its address */
bool lost[NODES + 1];		/* no lease: dead, or evicted */
bool forbidden[NODES + 1];

/* A message of a feed: wirev1.ReplicateEvent. */
typedef Feed { byte epoch, from, to, keys; bool snapshot; byte v[KEYS] }

/* A data node: data.replica, data.Store, data.migration. */
typedef Node {
	bool alive;
	bool due;		/* the row has changed since it was applied here */
	mtype state;		/* 0: follows, or is not in the row */
	byte epoch;
	byte v[KEYS];		/* the copies; 0: none */
	byte pos, at[KEYS];	/* the feed that it leads: its position, and that of each key's last change */
	byte cepoch, cpos;	/* copyEpoch, copyPosition */
	byte merges, touched;	/* Store.merges; the keys in Store.touched */
	byte since;		/* ... of which since the takeover's merge began */
	bool leaving;
	/* The feed that it follows. */
	byte leader, lepoch, sent;
	bool open;
	Feed m;			/* a message that was sent to this node */
	/* Its migration. */
	mtype phase;
	byte source, sepoch, last, answered
}
Node n[NODES + 1];

/* A write that was sent; late: given up by the session, or for an epoch that has
   ended. */
typedef Write { mtype kind; byte epoch, v; bool accepted, old }

/* A session: session.registry, session.fence. */
typedef Session {
	bool alive, listed;
	byte held;		/* the version that it holds; 0: none. It is the source of truth */
	mtype pending;		/* what data nodes have not acknowledged: put, removal, or nothing */
	byte gone;		/* the version that is to be removed */
	byte fence;
	Write w, late;
	byte read;		/* the newest version that it has read */
	byte slow, slowly, showed	/* a read whose answer was sent: its epoch, and its content */
}
Session s[SESSIONS];

/* A diff of a node with a session. */
typedef Diff { byte epoch, has, v, since; mtype answer; bool asked }
Diff d[SESSIONS * (NODES + 1)];
#define D(x, j) d[(x) * SESSIONS + (j)]

byte client, version = 1;	/* the session that the client is connected to; SESSIONS: it is dead */

byte drains = DRAINS, moves = MOVES, crashes = CRASHES, cuts = CUTS, session_crashes = SESSION_CRASHES,
     repairs = REPAIRS, losses = LOSSES, lates = LATES, silences = SILENCES, breaks = BREAKS, drops = DROPS,
     wanders = WANDERS, deaths = DEATHS, slow_reads = SLOW_READS;
bool calm, rested;

/* ---- The properties, and variables that only they read. ---- */

bool ONE_LEADER_PER_EPOCH, NOTHING_MISSING, WITHDRAWN_STAYS, NO_OLDER_READ, NOTHING_UNREAD,
     COPY_NOT_PASSED_OVER, FOLLOWER_EQUALS, SERVED_IN_CALM;	/* always false: they give Spin's message a name */

byte served = 1;		/* the highest leader epoch that was served */
byte stored;		/* the highest version that was acknowledged as stored */
byte x, y, z;			/* temporary within one step, 0 between steps */

#define max(a, b)   ((a) > (b) -> (a) : (b))
#define best(x)     max(n[x].v[0], n[x].v[1])	/* the highest version of a session's copy */
#define newest(x)   max(best(x), n[x].v[NO_OWNER])
#define shown(x)    (best(x) >= n[x].v[NO_OWNER] && live(best(x)) -> best(x) : 0)	/* what is visible */
#define leads(x)    (n[x].state == migrating || n[x].state == serving)
/* The node that serves the newest epoch. While a successor accepts writes already
   and its source still serves, the source may lack what was stored: see README. */
#define server(x)   (n[x].alive && n[x].state == serving && n[x].epoch == t.epoch)

/* ---- The guards that ./run removes. ---- */

/* Every end of a leadership ends its merges: Store.EndAll. */
#ifdef FINISH_KEEPS_FLIGHTS
#define end_merges_finished(x)
#else
#define end_merges_finished(x) end_merges(x)
#endif
#ifdef MIGRATING_KEEPS_FLIGHTS
#define end_merges_migrating(x)
#else
#define end_merges_migrating(x) end_merges(x)
#endif
#ifdef GRANT_KEEPS_FLIGHTS
#define end_merges_granted(x)
#else
#define end_merges_granted(x) end_merges(x)
#endif

/* slot.replacement: a complete copy comes first, also that of a forbidden node. */
#ifdef HEIR_ALLOWED_ONLY
#define may_inherit(x) (!forbidden[x])
#else
#define may_inherit(x) (!forbidden[x] || complete(x))
#endif
#ifdef HEIR_NO_COMPLETE
#define more_complete(x, h) false
#define as_complete(x, h) true
#else
#define more_complete(x, h) (complete(x) && !complete(h))
#define as_complete(x, h) (complete(x) == complete(h))
#endif
#ifdef HEIR_NO_POSITION
#define further(x, h) false
#else
#define further(x, h) (report_epoch(x) > report_epoch(h) || report_epoch(x) == report_epoch(h) && position(x) > position(h))
#endif

/* data.Finish: the source stops; and how the successor uses the answer. */
#ifdef SOURCE_READS_ON
#define reads_at(x) (n[x].state == serving || n[x].state == finished)
#elif defined(READ_MIGRATING)
#define reads_at(x) leads(x)
#else
#define reads_at(x) (n[x].state == serving)
#endif
#ifdef SOURCE_WRITES_ON
#define writes_at(x) (leads(x) || n[x].state == finished)
#else
#define writes_at(x) leads(x)
#endif
#ifdef NO_LAST_POSITION
#define reached(x) true
#else
#define reached(x) (n[x].cepoch == n[x].sepoch && n[x].cpos >= n[x].last)
#endif
#ifdef ANY_SOURCE_EPOCH
#define same_source(x) true
#else
#define same_source(x) (n[n[x].source].epoch == n[x].sepoch)
#endif

/* replica.access: the leader epoch that a request names. */
#ifdef WRITE_NO_EPOCH
#define write_epoch(x, e) true
#else
#define write_epoch(x, e) (n[x].epoch == (e))
#endif
#ifdef READ_NO_EPOCH
#define read_epoch(x, e) true
#else
#define read_epoch(x, e) (n[x].epoch == (e))
#endif

/* replica.write: a request that is older than an accepted one is refused. */
#ifdef NO_NUMBERS
#define overtaken_write(j) false
#else
#define overtaken_write(j) s[j].late.old
#endif

/* Registry.current: an answer for an epoch that has ended does not count. */
#ifdef COUNT_OLD_READS
#define counts_read(j) true
#else
#define counts_read(j) (s[j].slow == s[j].fence)
#endif
#ifdef COUNT_OLD_ACKS
#define counts_ack(j, w) (w.v == (w.kind == removal -> s[j].gone : s[j].held))
#else
#define counts_ack(j, w) (w.epoch == s[j].fence)
#endif

/* session.Diff: the session adopts the asker's epoch, and refuses a lower one. */
#ifdef DIFF_NO_ADOPTION
#define adopt(j, e)
#else
#define adopt(j, e) s[j].fence = max(s[j].fence, e)
#endif
#ifdef DIFF_ANY_ASKER
#define may_ask(j, e) true
#else
#define may_ask(j, e) (s[j].fence <= (e))
#endif

/* The sessions that must have answered before a slot is served without its
   source's last position. */
#ifdef SERVE_UNANSWERED
#define all_answered(x) true
#else
#define all_answered(x) ((!s[0].listed || n[x].answered & bit(0)) && (!s[1].listed || n[x].answered & bit(1)))
#endif

/* differ.apply: only in the leadership that asked. */
#ifdef DIFF_ANY_EPOCH
#define of_this_epoch(x, j) true
#else
#define of_this_epoch(x, j) (leads(x) && n[x].epoch == D(x, j).epoch)
#endif

/* Store.overtaken: what the owner wrote meanwhile is newer. A copy that follows has
   no merge of its own: it compares with a merge before every write. */
#ifdef MERGE_OVERTAKES
#define merge_overtaken(x, j) false
#else
#define merge_overtaken(x, j) (n[x].touched & D(x, j).since & bit(j))
#endif
#ifdef FOLLOW_OVERTAKES
#define follow_overtaken(x, j) false
#else
#define follow_overtaken(x, j) (n[x].touched & (n[x].state == migrating -> n[x].since : 255) & bit(j))
#endif

/* replica.feed: only the leader and the epoch that the copy follows; no gap. */
#ifdef FEED_ANY_EPOCH
#define followed(x) true
#else
#define followed(x) (n[x].leader && n[x].m.epoch == n[x].lepoch)
#endif
#ifdef FEED_NO_GAP
#define no_gap(x) true
#else
#define no_gap(x) (n[x].cepoch == n[x].m.epoch && n[x].cpos == n[x].m.from)
#endif

/* The arranger: the successor has caught up; the slot is stable when it serves. */
#ifdef SWITCH_UNREADY
#define caught_up(x) (!lost[x])
#else
#define caught_up(x) (n[x].state == 0 && n[x].cepoch == t.epoch)
#endif
#ifdef SETTLE_UNSERVED
#define reports_serving(x) (leads(x) && n[x].epoch == t.epoch)
#else
#define reports_serving(x) (n[x].state == serving && n[x].epoch == t.epoch)
#endif

/* replica.follower: the copy is kept until a node serves that has all of it. */
#ifdef FORGET_EARLY
#define may_forget true
#else
#define may_forget (t.phase == stable || t.phase == preparing)
#endif

/* ================= A node's store ================= */

inline end_merges(x) { n[x].merges = 0; n[x].touched = 0; n[x].since = 0 }

inline end_merge(x) {
	if :: n[x].merges -> n[x].merges-- :: else fi;
	if :: n[x].merges == 0 -> end_merges(x) :: else fi
}

inline logged(x, j) {
	if :: n[x].state == serving -> n[x].pos++; n[x].at[j] = n[x].pos :: else fi
}

inline store_put(x, j, what) {
	if :: n[x].v[j] < what -> n[x].v[j] = what; logged(x, j) :: else fi
}

/* A removal does not remove a newer version. A copy that hides an older one stays
   hidden: a tombstone stays as it is, another copy becomes a tombstone without an
   owner. The tombstone has the version that the removal names, because the copy
   itself may arrive later and is then refused (see README). */
#define hides(x, j, what) (n[x].v[1 - j] && n[x].v[1 - j] < (what))
#ifdef REMOVAL_UNHIDES
#define leaves(x, j, what) false
#elif defined(REMOVAL_OF_NOTHING)
#define leaves(x, j, what) hides(x, j, n[x].v[j])
#else
#define leaves(x, j, what) hides(x, j, what)
#endif
inline store_remove(x, j, what) {
	if
	:: n[x].v[j] <= what && !(withdrawn(n[x].v[j]) && hides(x, j, n[x].v[j])) ->
		if :: leaves(x, j, what) -> store_put(x, NO_OWNER, what) :: else fi;
		if :: n[x].v[j] -> n[x].v[j] = 0; logged(x, j) :: else fi
	:: else
	fi
}

/* A session's own write has precedence over what was decided before. */
inline touch(x, j) {
	if
	:: n[x].merges ->
		n[x].touched = n[x].touched | bit(j); n[x].since = n[x].since | bit(j);
		if :: D(x, j).asked && D(x, j).epoch == n[x].epoch -> D(x, j).since = D(x, j).since | bit(j) :: else fi
	:: else
	fi
}

inline forget_feed(x) { n[x].pos = 0; n[x].at[0] = 0; n[x].at[1] = 0; n[x].at[2] = 0 }
inline forget_message(x) {
	n[x].m.epoch = 0; n[x].m.from = 0; n[x].m.to = 0; n[x].m.keys = 0; n[x].m.snapshot = false; n[x].m.v[0] = 0; n[x].m.v[1] = 0; n[x].m.v[2] = 0
}
inline forget_migration(x) { n[x].phase = 0; n[x].source = 0; n[x].sepoch = 0; n[x].last = 0; n[x].answered = 0 }
inline unfollow(x) { n[x].leader = 0; n[x].lepoch = 0; n[x].sent = 0; n[x].open = false }
inline follow(x, whom, when) {
	if
	:: n[x].leader == whom && n[x].lepoch == when
	:: else -> n[x].leader = whom; n[x].lepoch = when; n[x].sent = 0; n[x].open = false
	fi
}

/* replica.forget, and the state after a crash. */
inline forget(x) {
	n[x].state = 0; n[x].epoch = 0; n[x].v[0] = 0; n[x].v[1] = 0; n[x].v[2] = 0; n[x].cepoch = 0; n[x].cpos = 0;
	n[x].leaving = false; end_merges(x); forget_feed(x); unfollow(x); forget_migration(x)
}

inline finish(x) {
	if
	:: n[x].state == serving ->
		n[x].state = finished; n[x].cepoch = n[x].epoch; n[x].cpos = n[x].pos; end_merges_finished(x);
		printf("D%d: finished with epoch %d at position %d\n", x, n[x].epoch, n[x].pos)
	:: else
	fi;
	n[x].leaving = false
}

/* ================= A node's part in the row ================= */

#define holds(x) (t.leader == (x) || t.succ == (x) || t.source == (x) || (t.foll & bit(x)))

/* slots.grant */
inline grant(x) {
	if
	:: n[x].state == serving || n[x].state == finished -> n[x].cepoch = n[x].epoch; n[x].cpos = n[x].pos
	:: else
	fi;
	end_merges_granted(x);
	n[x].state = migrating; n[x].epoch = t.epoch;
	n[x].merges++; n[x].since = 0;
	forget_feed(x); forget_migration(x);
	if
	:: t.phase == switching && t.source ->
		n[x].phase = finishing; n[x].source = t.source; n[x].sepoch = t.sepoch; follow(x, t.source, t.sepoch)
	:: else -> n[x].phase = asking; unfollow(x)
	fi;
	printf("D%d: is granted epoch %d\n", x, t.epoch)
}

/* slots.step: apply the row. */
inline apply_row(x) {
	n[x].due = false;
	if
	:: t.leader == x ->
		n[x].leaving = false;
		if :: n[x].epoch < t.epoch -> grant(x) :: else fi
	:: t.phase == switching && t.source == x && n[x].state == serving && n[x].epoch == t.sepoch -> n[x].leaving = true
	:: else ->
		if
		:: n[x].state == serving -> finish(x); end_merges(x)
		:: n[x].state == finished -> end_merges_finished(x)
		:: n[x].state == migrating -> end_merges_migrating(x); n[x].state = 0; forget_migration(x)
		:: else
		fi;
		n[x].leaving = false;
		if
		:: t.phase == switching && t.source == x && !may_forget -> unfollow(x)
		:: !(t.source == x) && holds(x) -> n[x].state = 0; forget_feed(x); follow(x, t.leader, t.epoch)
		:: !(holds(x) && t.source != x) && may_forget -> forget(x)
		:: else -> unfollow(x)	/* the copy may be the last one that is complete */
		fi
	fi
}

/* What was acknowledged survives as long as the leader, a copy in the row or the
   writing session does. When all of them are lost it is not required any more. A
   living source that did not answer counts as lost, unless SILENT_SOURCE. */
#ifdef SILENT_SOURCE
#define counts(x) (holds(x) && !lost[x])
#else
#define counts(x) (holds(x) && !lost[x] && t.source != x)
#endif
inline forgo_lost(x) {
	y = newest(x);
	if :: s[0].alive && !s[0].pending -> y = max(y, s[0].held) :: else fi;
	if :: s[1].alive && !s[1].pending -> y = max(y, s[1].held) :: else fi;
	z = 1;
	do
	:: z <= NODES ->
		if :: counts(z) -> y = max(y, newest(z)) :: else fi;
		z++
	:: else -> break
	od;
	if :: stored > y -> stored = y; printf("-- what was stored is lost with all that had it\n") :: else fi;
	if :: s[0].read > y -> s[0].read = y :: else fi;
	if :: s[1].read > y -> s[1].read = y :: else fi;
	y = 0; z = 0
}

/* slots.serve */
inline serve(x) {
	if :: n[x].phase == asking -> forgo_lost(x) :: else fi;
	end_merge(x);
	unfollow(x); forget_migration(x); forget_feed(x);
	n[x].state = serving; n[x].pos = 1;
	n[x].cepoch = n[x].epoch; n[x].cpos = 1;
	served = max(served, n[x].epoch);
	printf("D%d: serves epoch %d with versions [%d %d %d]\n", x, n[x].epoch, n[x].v[0], n[x].v[1], n[x].v[2])
}

/* Each process below is a loop of steps. A step is possible whenever its guard
   holds. */
proctype Data(byte i) {
end:	do
	:: d_step { n[i].alive && n[i].due -> apply_row(i) }

	/* ---- A migration: data/migrate.go ---- */

	:: d_step { n[i].alive && n[i].phase == finishing && n[n[i].source].alive ->	/* Finish is answered */
		x = n[i].source;
		if
		:: (n[x].state == serving || n[x].state == finished) && n[x].epoch < n[i].epoch ->
#ifndef NO_FINISH
			finish(x);
#endif
			if
			:: same_source(i) -> n[i].phase = applying; n[i].last = n[x].pos
			:: else -> n[i].phase = asking; unfollow(i)
			fi
		:: else -> n[i].phase = asking; unfollow(i); printf("D%d: D%d refuses to finish\n", i, x)
		fi;
		x = 0 }
	:: d_step { n[i].alive && n[i].phase == finishing && n[n[i].source].alive && losses &&	/* its answer is lost */
		    n[n[i].source].state == serving && n[n[i].source].epoch < n[i].epoch ->
		losses--; x = n[i].source; finish(x); x = 0;
		n[i].phase = asking; unfollow(i); printf("D%d: no answer\n", i) }
	:: d_step { n[i].alive && (n[i].phase == finishing || n[i].phase == applying) &&
		    (silences || !n[n[i].source].alive || n[n[i].source].epoch != n[i].sepoch) ->
		if :: n[n[i].source].alive && silences -> silences-- :: else fi;
		n[i].phase = asking; unfollow(i); printf("D%d: the source is silent\n", i) }
	:: d_step { n[i].alive && n[i].phase == applying && reached(i) -> serve(i) }
	:: d_step { n[i].alive && n[i].phase == asking && all_answered(i) -> serve(i) }

	/* A source that is never asked to finish: after a lease. */
	:: d_step { n[i].alive && n[i].leaving -> finish(i) }

	/* ---- The feed that it follows: data/follow.go, data/replicate.go ---- */

#define feeds(x, e) (n[x].alive && (n[x].state == serving || n[x].state == finished) && n[x].epoch == e)
	:: d_step { n[i].alive && n[i].leader && !n[i].open && feeds(n[i].leader, n[i].lepoch) ->
		n[i].open = true; n[i].sent = (n[i].cepoch == n[i].lepoch -> n[i].cpos : 0) }
	:: d_step { n[i].alive && n[i].open && feeds(n[i].leader, n[i].lepoch) && n[i].m.epoch == 0 && n[i].sent < n[n[i].leader].pos ->
		x = n[i].leader;
		n[i].m.epoch = n[i].lepoch; n[i].m.from = n[i].sent; n[i].m.to = n[x].pos; n[i].m.snapshot = (n[i].sent == 0);
		if :: n[i].sent == 0 || n[x].at[0] > n[i].sent -> n[i].m.keys = n[i].m.keys | 1; n[i].m.v[0] = n[x].v[0] :: else fi;
		if :: n[i].sent == 0 || n[x].at[1] > n[i].sent -> n[i].m.keys = n[i].m.keys | 2; n[i].m.v[1] = n[x].v[1] :: else fi;
		if :: n[i].sent == 0 || n[x].at[2] > n[i].sent -> n[i].m.keys = n[i].m.keys | 4; n[i].m.v[2] = n[x].v[2] :: else fi;
		n[i].sent = n[x].pos;
		x = 0 }
	:: d_step { n[i].alive && n[i].m.epoch ->
		if
		:: followed(i) && (n[i].m.snapshot || no_gap(i)) ->
			if :: (n[i].m.keys & 1) && !follow_overtaken(i, 0) -> n[i].v[0] = n[i].m.v[0] :: else fi;
			if :: (n[i].m.keys & 2) && !follow_overtaken(i, 1) -> n[i].v[1] = n[i].m.v[1] :: else fi;
			if :: n[i].m.keys & 4 -> n[i].v[2] = n[i].m.v[2] :: else fi;
			n[i].cepoch = n[i].m.epoch; n[i].cpos = n[i].m.to;
			printf("D%d: has copied epoch %d to position %d: versions [%d %d %d]\n", i, n[i].cepoch, n[i].cpos, n[i].v[0], n[i].v[1], n[i].v[2]);
			x = lead[n[i].cepoch];
#ifndef FOLLOWERS_UNCHECKED
			assert(FOLLOWER_EQUALS || n[i].state == migrating || !feeds(x, n[i].cepoch) || n[x].pos != n[i].cpos ||
			       n[x].v[0] == n[i].v[0] && n[x].v[1] == n[i].v[1] && n[x].v[2] == n[i].v[2]);
#endif
			x = 0
		:: followed(i) && !n[i].m.snapshot && !no_gap(i) -> n[i].open = false; n[i].sent = 0	/* asked again */
		:: else
		fi;
		forget_message(i) }
	:: d_step { breaks && n[i].open -> breaks--; n[i].open = false; n[i].sent = 0; forget_message(i); printf("!! D%d's feed breaks\n", i) }
	:: d_step { drops && n[i].m.epoch -> drops--; forget_message(i); printf("!! D%d's feed loses a message\n", i) }
	od
}

/* ================= Diffs: data/diff.go, session/diff.go ================= */

inline forget_diff(i, j) {
	D(i, j).asked = false; D(i, j).answer = 0; D(i, j).epoch = 0; D(i, j).has = 0; D(i, j).v = 0; D(i, j).since = 0
}

proctype Differ(byte i, j) {
end:	do
	:: d_step { n[i].alive && !D(i, j).asked && n[i].phase == asking && s[j].listed && !(n[i].answered & bit(j)) &&
		    (!calm || s[j].alive && s[j].fence <= n[i].epoch) ->
		D(i, j).asked = true; D(i, j).epoch = n[i].epoch; D(i, j).has = n[i].v[j]; n[i].merges++ }
	:: d_step { n[i].alive && !D(i, j).asked && n[i].state == serving && repairs && s[j].alive ->
		repairs--; printf("D%d: compares itself with S%d\n", i, j + 1);
		D(i, j).asked = true; D(i, j).epoch = n[i].epoch; D(i, j).has = n[i].v[j]; n[i].merges++ }
	:: d_step { D(i, j).asked && D(i, j).answer == 0 && s[j].alive && may_ask(j, D(i, j).epoch) ->
		adopt(j, D(i, j).epoch);
		if
		:: s[j].held > D(i, j).has -> D(i, j).answer = put; D(i, j).v = s[j].held
		:: s[j].held < D(i, j).has -> D(i, j).answer = removal; D(i, j).v = D(i, j).has
		:: else -> D(i, j).answer = same
		fi;
		printf("S%d: answers D%d's diff at epoch %d: %e %d\n", j + 1, i, D(i, j).epoch, D(i, j).answer, D(i, j).v) }
	:: d_step { D(i, j).answer ->
		if
		:: n[i].alive && of_this_epoch(i, j) ->
			if
			:: D(i, j).answer == put && !merge_overtaken(i, j) -> store_put(i, j, D(i, j).v)
			:: D(i, j).answer == removal && !merge_overtaken(i, j) -> store_remove(i, j, D(i, j).v)
			:: else
			fi;
			if :: n[i].phase == asking && n[i].epoch == D(i, j).epoch -> n[i].answered = n[i].answered | bit(j) :: else fi;
			end_merge(i)
		:: else
		fi;
		forget_diff(i, j) }
	/* Refused, or without an answer. */
	:: d_step { D(i, j).asked && (D(i, j).answer == 0 && (!s[j].alive || s[j].fence > D(i, j).epoch) || losses) ->
		if :: D(i, j).answer == 0 && (!s[j].alive || s[j].fence > D(i, j).epoch) :: else -> losses-- fi;
		if :: n[i].alive && leads(i) && n[i].epoch == D(i, j).epoch -> end_merge(i) :: else fi;
		forget_diff(i, j) }
	od
}

/* ================= A session ================= */

inline forget_write(wr) { wr.kind = 0; wr.epoch = 0; wr.v = 0; wr.accepted = false; wr.old = false }

/* replica.write */
inline store_write(j, wr) {
	x = lead[wr.epoch];
	touch(x, j);
	if
	:: wr.kind == put -> store_put(x, j, wr.v)
	:: else -> store_remove(x, j, wr.v)
	fi;
	printf("D%d: stores %e %d of S%d at epoch %d\n", x, wr.kind, wr.v, j + 1, n[x].epoch);
	x = 0
}
inline land(j, wr) {
	store_write(j, wr);
	wr.accepted = true;
	/* From now on a request that is older than this one is refused. */
	if :: s[j].late.kind && s[j].late.epoch == wr.epoch -> s[j].late.old = true :: else fi
}
#define accepts(w) (n[lead[w.epoch]].alive && writes_at(lead[w.epoch]) && write_epoch(lead[w.epoch], w.epoch))

/* Registry.Settle */
inline settle(j, wr) {
	if
	:: wr.kind == put && s[j].pending == put && wr.v == s[j].held ->
		s[j].pending = 0; stored = max(stored, wr.v); printf("S%d: version %d is stored\n", j + 1, wr.v)
	:: wr.kind == removal && s[j].pending == removal && wr.v == s[j].gone ->
		s[j].pending = 0; s[j].gone = 0; printf("S%d: version %d is removed\n", j + 1, wr.v)
	:: else
	fi
}

proctype Session_(byte j) {
end:	do
	/* The table. */
	:: d_step { s[j].alive && s[j].fence < t.epoch -> s[j].fence = t.epoch }

	/* ---- Write: session/writer.go ---- */

	:: d_step { s[j].alive && s[j].pending && !s[j].w.kind && (!calm || n[lead[s[j].fence]].alive && leads(lead[s[j].fence]) && n[lead[s[j].fence]].epoch == s[j].fence) ->
		s[j].w.kind = s[j].pending; s[j].w.epoch = s[j].fence;
		s[j].w.v = (s[j].pending == removal -> s[j].gone : s[j].held) }
	:: d_step { s[j].w.kind && !s[j].w.accepted && accepts(s[j].w) -> land(j, s[j].w) }
	:: d_step { s[j].w.kind && !s[j].w.accepted && !accepts(s[j].w) -> forget_write(s[j].w) }	/* refused */
	:: d_step { s[j].alive && s[j].w.accepted ->
		if :: counts_ack(j, s[j].w) -> settle(j, s[j].w) :: else fi;
		forget_write(s[j].w) }
	:: d_step { s[j].w.accepted && losses -> losses--; forget_write(s[j].w); printf("!! S%d: an answer is lost\n", j + 1) }
	/* Given up, or sent to a node whose epoch has ended: it may still be executed. */
	:: d_step { s[j].w.kind && !s[j].late.kind && lates ->
		lates--; printf("!! S%d gives a write up\n", j + 1);
		if
		:: s[j].w.accepted
		:: else -> s[j].late.kind = s[j].w.kind; s[j].late.epoch = s[j].w.epoch; s[j].late.v = s[j].w.v
		fi;
		forget_write(s[j].w) }
	:: d_step { s[j].late.kind && accepts(s[j].late) && !overtaken_write(j) ->
		printf("-- late:\n");
		store_write(j, s[j].late);
#ifdef COUNT_OLD_ACKS
		if :: s[j].alive && counts_ack(j, s[j].late) -> settle(j, s[j].late) :: else fi;
#endif
		forget_write(s[j].late) }
	:: d_step { s[j].late.kind -> forget_write(s[j].late) }

	/* ---- Read: session/reader.go; S2 reads, S1 publishes first ---- */

#define reads(j, x) (s[j].alive && n[x].alive && reads_at(x) && read_epoch(x, s[j].fence))
#ifndef UNREAD
	:: d_step { j == 1 && reads(j, lead[s[j].fence]) && s[j].slow != s[j].fence && (newest(lead[s[j].fence]) != s[j].read || s[j].fence < served) ->
		x = lead[s[j].fence];
		assert(NO_OLDER_READ || s[j].fence >= served);
		assert(NOTHING_UNREAD || !shown(x) || shown(x) >= s[j].read);
		s[j].read = newest(x); x = 0 }
#endif
	:: d_step { j == 1 && slow_reads && !s[j].slow && reads(j, lead[s[j].fence]) ->
		slow_reads--; s[j].slow = s[j].fence; s[j].slowly = newest(lead[s[j].fence]);
		s[j].showed = shown(lead[s[j].fence]) }
	:: d_step { s[j].slow && s[j].alive ->
		if
		:: counts_read(j) ->
			assert(NOTHING_UNREAD || !s[j].showed || s[j].showed >= s[j].read);
			s[j].read = s[j].slowly
		:: else
		fi;
		s[j].slow = 0; s[j].slowly = 0; s[j].showed = 0 }

	/* The client has left this session: client grace, session.disown. */
	:: d_step { s[j].alive && client != j && live(s[j].held) ->
		s[j].gone = s[j].held; s[j].held = 0; s[j].pending = removal; printf("S%d: its client is gone\n", j + 1) }
	od
}

/* ================= The client ================= */

inline offer(j) {
	if
	:: s[j].held == version
	:: else -> s[j].held = version; s[j].pending = put; s[j].gone = 0
	fi
}

proctype Client() {
end:	do
	:: d_step { client < SESSIONS && version < VERSIONS && s[client].alive && !calm ->
		version++; offer(client);
		if :: withdrawn(version) -> printf("client: withdraws at S%d: version %d\n", client + 1, version)
		   :: else -> printf("client: publishes at S%d: version %d\n", client + 1, version) fi }
	:: d_step { client < SESSIONS && s[1 - client].alive && (!s[client].alive || wanders) ->
		if :: s[client].alive -> wanders-- :: else fi;
		client = 1 - client; offer(client); printf("client: is at S%d with version %d\n", client + 1, version) }
	:: d_step { client < SESSIONS && deaths ->
		deaths--; client = SESSIONS; printf("!! the client dies\n") }
	od
}

/* ================= The arranger: slot/arrange.go, slot/rebalance.go ================= */

#define up(x)       (!lost[x])
#define may_hold(x) (up(x) && !forbidden[x])
/* Reports: what a node's beat holds of the slot. */
#define complete(x) (n[x].alive && (n[x].state == serving || n[x].state == finished || n[x].state == 0 && n[x].cepoch))
#define report_epoch(x) (n[x].state -> n[x].epoch : n[x].cepoch)
#define position(x) (n[x].state == serving || n[x].state == finished -> n[x].pos : n[x].cpos)
#define inherits(x) (up(x) && holds(x) && x != t.leader && may_inherit(x))
#define better(x, h) (inherits(x) && (more_complete(x, h) || as_complete(x, h) && further(x, h)))

#if NODES > 2
#define any_better(h)   (better(1, h) || better(2, h) || better(3, h))
#define any_inherits    (inherits(1) || inherits(2) || inherits(3))
#define followers       ((t.foll / 2 % 2) + (t.foll / 4 % 2) + (t.foll / 8 % 2))
#define kept(x)         ((t.foll & bit(x)) && may_hold(x))
#define kept_followers  (kept(1) + kept(2) + kept(3))
#define caught_followers ((kept(1) && caught_up(1)) + (kept(2) && caught_up(2)) + (kept(3) && caught_up(3)))
#define open_nodes      (may_hold(1) + may_hold(2) + may_hold(3))
#else
#define any_better(h)   (better(1, h) || better(2, h))
#define any_inherits    (inherits(1) || inherits(2))
#define followers       ((t.foll / 2 % 2) + (t.foll / 4 % 2))
#define kept(x)         ((t.foll & bit(x)) && may_hold(x))
#define kept_followers  (kept(1) + kept(2))
#define caught_followers ((kept(1) && caught_up(1)) + (kept(2) && caught_up(2)))
#define open_nodes      (may_hold(1) + may_hold(2))
#endif

inline written() {
	n[1].due = true; n[2].due = true;
#if NODES > 2
	n[3].due = true;
#endif
	printf("table: %e, D%d leads epoch %d, successor D%d, source D%d, followers %d\n", t.phase, t.leader, t.epoch, t.succ, t.source, t.foll)
}
inline join(x) { if :: x && up(x) -> t.foll = t.foll | bit(x) :: else fi }
inline leave(x) { t.foll = t.foll & (255 - bit(x)) }

/* What the arranger may write to the row, with node i as leader, successor or
   follower. */
proctype Arranger(byte i) {
end:	do
	/* removeDead: a dead leader's slot goes to its replacement. */
	:: d_step { !up(t.leader) && i != t.leader && up(i) && (any_inherits -> inherits(i) && !any_better(i) : may_hold(i)) ->
#ifndef HEIRS_UNCHECKED
		x = 1;
		do
		:: x <= NODES ->
			assert(COPY_NOT_PASSED_OVER || x == t.leader || !up(x) || !holds(x) || !complete(x) || complete(i));
			x++
		:: else -> x = 0; break
		od;
#endif
		join(t.succ); join(t.source); leave(i);
		t.phase = crash; t.leader = i; t.epoch++; t.succ = 0; t.source = 0; t.sepoch = 0; lead[t.epoch] = i;
		written() }
	:: d_step { t.phase == preparing && t.succ == i && !may_hold(i) && up(t.leader) ->
		if :: up(i) && caught_up(i) && followers < REPLICAS - 1 -> join(i) :: else fi;
		t.phase = stable; t.succ = 0; written() }
	:: d_step { !up(i) && (t.foll & bit(i)) -> leave(i); written() }

	/* applyReports: the reports continue the hand-over. */
	:: d_step { (t.phase == switching || t.phase == crash) && t.leader == i && up(i) && reports_serving(i) ->
		if :: t.source && up(t.source) && followers < REPLICAS - 1 -> join(t.source) :: else fi;
		t.phase = stable; t.source = 0; t.sepoch = 0; written() }
	:: d_step { t.phase == preparing && t.succ == i && may_hold(i) && up(t.leader) && caught_up(i) ->
		t.phase = switching; t.source = t.leader; t.sepoch = t.epoch; t.leader = i; t.succ = 0; t.epoch++; lead[t.epoch] = i;
		written() }

	/* drain and balance: a follower comes first. */
	:: d_step { t.phase == stable && up(t.leader) && i != t.leader && may_hold(i) && (kept(i) || kept_followers == 0) &&
		    (forbidden[t.leader] || moves && !calm) ->
		if :: !forbidden[t.leader] -> moves-- :: else fi;
		leave(i); t.phase = preparing; t.succ = i; written() }

	/* replicate, and trim. */
	:: d_step { t.phase == stable && up(t.leader) && i != t.leader && may_hold(i) && !holds(i) && kept_followers < REPLICAS - 1 ->
		join(i); written() }
	:: d_step { t.phase == stable && up(t.leader) && (t.foll & bit(i)) && (forbidden[i] && caught_followers >= REPLICAS - 1 || caught_followers > REPLICAS - 1) ->
		leave(i); written() }

	/* ---- Faults and operators ---- */

	:: d_step { drains && !forbidden[i] && open_nodes > (may_hold(i) -> 1 : 0) -> drains--; forbidden[i] = true; printf("!! D%d is drained\n", i) }
	:: d_step { crashes && n[i].alive -> crashes--; n[i].alive = false; printf("!! D%d is killed\n", i);
		forget(i); forget_message(i); n[i].due = false }
	:: d_step { !n[i].alive && !lost[i] -> lost[i] = true; printf("table: D%d is lost\n", i) }
	:: d_step { cuts && n[i].alive && !lost[i] -> cuts--; lost[i] = true; printf("!! D%d is evicted and lives\n", i) }
	:: d_step { n[i].alive && lost[i] && !cuts -> lost[i] = false; printf("table: D%d is back\n", i) }
	od
}

inline forget_session(j) {
	s[j].held = 0; s[j].pending = 0; s[j].gone = 0; s[j].read = 0; s[j].slow = 0; s[j].slowly = 0; s[j].showed = 0; s[j].fence = 0
}

proctype Faults() {
end:	do
	:: d_step { session_crashes && s[0].alive -> session_crashes--; s[0].alive = false; printf("!! S1 is killed\n"); forget_session(0) }
	:: d_step { session_crashes && s[1].alive -> session_crashes--; s[1].alive = false; printf("!! S2 is killed\n"); forget_session(1) }
	:: d_step { !s[0].alive && s[0].listed -> s[0].listed = false }
	:: d_step { !s[1].alive && s[1].listed -> s[1].listed = false }
#ifdef CALM
	:: d_step { !calm -> calm = true; drains = 0; moves = 0; crashes = 0; cuts = 0; session_crashes = 0; repairs = 0; losses = 0; lates = 0;
		silences = 0; breaks = 0; drops = 0; wanders = 0; deaths = 0; slow_reads = 0; printf("!! calm from here on\n") }
	/* No other step is possible: the slot must be served as the blacklist and the
	   number of replicas require. */
	:: d_step { calm && !rested && timeout ->
		rested = true;
		assert(SERVED_IN_CALM || t.phase == stable && server(t.leader) && n[t.leader].epoch == t.epoch &&
		       (!forbidden[t.leader] || open_nodes == 0) && (!s[0].alive || !s[0].pending) && (!s[1].alive || !s[1].pending) &&
		       (kept_followers >= REPLICAS - 1 || open_nodes < REPLICAS) && caught_followers == kept_followers) }
#endif
	od
}

/* Enabled only where a property is violated. */
#define missing(x, j)  (server(x) && s[j].alive && s[j].pending == 0 && live(s[j].held) && n[x].v[j] != s[j].held)
#define returned(x, j) (server(x) && s[j].alive && s[j].pending == 0 && !live(s[j].held) && live(n[x].v[j]))
#define older(x)       (server(x) && shown(x) && shown(x) < stored)
proctype Checker(byte i) {
end:	do
	:: d_step { missing(i, 0) || missing(i, 1) || older(i) && live(stored) -> assert(NOTHING_MISSING) }
	:: d_step { returned(i, 0) || returned(i, 1) || older(i) && withdrawn(stored) -> assert(WITHDRAWN_STAYS) }
	:: d_step { leads(i) && lead[n[i].epoch] != i -> assert(ONE_LEADER_PER_EPOCH) }
	od
}

/* The run begins with D1 serving epoch 1, D2 a complete copy of it, the registration
   at S1, and stored unless UNSTORED. */
init {
	d_step {
		t.phase = stable; t.leader = 1; t.epoch = 1; t.foll = bit(2); lead[1] = 1;
		n[1].alive = true; n[1].state = serving; n[1].epoch = 1; n[1].pos = 1; n[1].cepoch = 1; n[1].cpos = 1;
		n[2].alive = true; n[2].leader = 1; n[2].lepoch = 1; n[2].cepoch = 1; n[2].cpos = 1; n[2].open = true; n[2].sent = 1;
#if NODES > 2
		n[3].alive = true;
#endif
		s[0].alive = true; s[0].listed = true; s[0].held = 1; s[0].fence = 1;
		s[1].alive = true; s[1].listed = true; s[1].fence = 1;
#ifdef MOVED	/* the client is at S2 already, and S1 has not noticed */
		s[1].held = 1; n[1].v[1] = 1; n[2].v[1] = 1; client = 1;
#endif
#ifdef UNSTORED
		s[0].pending = put
#else
		n[1].v[0] = 1; n[2].v[0] = 1; stored = 1; s[1].read = 1
#endif
	};
	atomic {
		run Data(1); run Data(2); run Arranger(1); run Arranger(2); run Checker(1); run Checker(2);
		run Differ(1, 0); run Differ(1, 1); run Differ(2, 0); run Differ(2, 1);
#if NODES > 2
		run Data(3); run Arranger(3); run Checker(3); run Differ(3, 0); run Differ(3, 1);
#endif
		run Session_(0); run Session_(1); run Client(); run Faults()
	}
}
