package lab

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"

	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/lab/article000/sofaloop"
	"conclave/lab/article003/versioncas"
	conclavesql "conclave/sql"
)

// own are the defaults of Conclave's elections: a beat every third of the
// lease.
var own = Times{Lease: 3 * time.Second, Beat: time.Second, Check: time.Second}

// sofaTimes are the original's.
var sofaTimes = Times{Lease: sofaloop.Duration, Beat: sofaloop.Interval, Check: sofaloop.Interval}

var witnessRule = Rule{
	Name: "conclave", From: "elector/termcas, takeover=witness (the cluster's default)",
	About:    "A term in one row; the leader holds a named lock on the connection of its renewals, and followers wait for the lock.",
	Weakness: "A leader that is stopped while its connection is broken is replaced at once: then two nodes may believe that they lead, but the old leader's guarded writes are refused.",
	Own:      own, Fences: true,
	migrate: migrateLock,
	start: func(env *environment) (candidate, error) {
		return env.termcas(termcas.Witness)
	},
}

var leaseRule = Rule{
	Name: "conclave-lease", From: "elector/termcas, takeover=lease (`conclave lead`)",
	About: "The same row; only the lease ends a term, observed by each follower's own clock.",
	Own:   own, Fences: true, Exclusive: true,
	migrate: migrateLock,
	start: func(env *environment) (candidate, error) {
		return env.termcas(termcas.Lease)
	},
}

var sofaRule = Rule{
	Name: "sofaregistry", From: "article 000; elector/termcas, profile sofa",
	About:    "Compare and swap of (owner, term, beat); ages in whole seconds by the database; no resignation.",
	Weakness: "Whole seconds: a lease of 1 s expires after 2 to 3 s. A leader that leaves is replaced only when its lease has expired, as after a crash. (The loop around the statements, and the trust, are Conclave's.)",
	Own:      sofaTimes,
	migrate:  migrateLock,
	start: func(env *environment) (candidate, error) {
		strategy, err := termcas.NewSofa(termcas.Config{DB: env.db, Lock: lockOf(env.Lab), Takeover: termcas.Lease})
		if err != nil {
			return candidate{}, err
		}
		return env.elector(strategy, nil)
	},
}

var versionRule = Rule{
	Name: "version-cas", From: "article 003, repaired; lab/article003/versioncas",
	About: "One number is the fence, the beat and the term; followers observe it by their own clocks, as a lease.",
	Own:   own, Fences: true, Exclusive: true,
	migrate: versioncas.Migrate,
	start: func(env *environment) (candidate, error) {
		strategy, err := versioncas.New(versioncas.Config{DB: env.db, Key: env.Lab})
		return env.joined(strategy, err, statement("write_version"), env.Lab)
	},
}

func migrateLock(ctx context.Context, db *conclavesql.DB, lab string) error {
	return db.Migrate(ctx, lockOf(lab))
}

// lockOf returns an election's row in article 000's table.
func lockOf(lab string) conclavesql.Lock {
	return conclavesql.Lock{DataCenter: conclavesql.DefaultDataCenter, Name: lab}
}

// termcas returns a candidate with the cluster's own strategy.
func (env *environment) termcas(takeover termcas.Takeover) (candidate, error) {
	strategy, err := termcas.New(termcas.Config{DB: env.db, Lock: lockOf(env.Lab), Takeover: takeover, Ask: askLeader})
	return env.joined(strategy, err, statement("write_fenced"), lockOf(env.Lab).DataCenter, env.Lab)
}

// joined returns a candidate whose guarded writes join the row of the election,
// which key selects. err is that of making the strategy.
func (env *environment) joined(strategy elector.Strategy, err error, statement string, key ...any) (candidate, error) {
	if err != nil {
		return candidate{}, err
	}
	return env.elector(strategy, func(ctx context.Context, db *conclavesql.DB, term uint64) (bool, error) {
		args := slices.Concat([]any{term}, key, []any{env.ID().String(), term})
		n, err := db.Exec(ctx, statement, args...)
		return n == 1, err
	})
}

// direct uses no proxy of the environment, and a connection for each request.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// askLeader asks at a leader's port whether it leads a term. After a refused dial
// it is known that it does not.
func askLeader(ctx context.Context, address string, term uint64, lock string) (alive, known bool) {
	query := url.Values{"term": {strconv.FormatUint(term, 10)}, "lock": {lock}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/?"+query.Encode(), nil)
	if err != nil {
		return false, false
	}
	reply, err := direct.Do(request)
	if err != nil {
		return false, errors.Is(err, syscall.ECONNREFUSED)
	}
	defer reply.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(reply.Body, 16)) // if it is cut off it does not parse
	alive, err = strconv.ParseBool(string(body))
	return alive, err == nil
}

// elector returns a candidate that runs an elector with a strategy. The elector's trace
// reports the perceived leadership at the moment of its changes, under the elector's
// mutex. write is nil if the strategy's term cannot guard a write.
func (env *environment) elector(strategy elector.Strategy, write guardedWrite) (candidate, error) {
	e, err := elector.New(elector.Config{
		ID: env.ID(), Address: env.address, Strategy: strategy, Lease: env.Times.Lease, Beat: env.Times.Beat, HandOver: elector.NoHandOver,
		WakePeers: func(context.Context, elector.Term) { env.report(Event{What: "wake", At: stamp(time.Now())}) },
		Trace: func(c elector.Event) {
			switch c.Kind {
			case elector.EventLed, elector.EventExtended:
				env.perceived.lead(c.Term, c.Until)
			case elector.EventLeft:
				env.perceived.leave(c.Err.Error())
			}
		},
	})
	if err != nil {
		return candidate{}, err
	}
	env.confirmLeading = e.ConfirmLeading
	return candidate{
		run: e.Run, stop: e.Shutdown, wake: e.Wake, write: write,
		leading: func() (uint64, bool) {
			term, ok := e.Leading()
			return term.Number, ok
		},
		cost: func() (statements, turns uint64) { return env.db.Statements(), e.Stats().Rounds },
	}, nil
}
