package zklatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"conclave"
	"conclave/elector"
	"conclave/internal/signal"
)

// StrategyConfig configures a Strategy. Tree and Path are required.
type StrategyConfig struct {
	Tree Tree
	Path string // of the election: /conclave/elections/meta

	Rand   *rand.Rand   // for ids; nil draws a seed from the system
	Logger *slog.Logger // nil discards the log lines
}

// Strategy elects by a Latch, and numbers the terms in a record beside it. Round and
// Resign are called by one goroutine; Wake and Suspended by any.
type Strategy struct {
	cfg    StrategyConfig
	log    *slog.Logger
	client *Client
	wake   signal.Signal
	held   atomic.Pointer[hold] // nil unless this node leads; stored by the rounds only

	latch *Latch // nil unless in the queue; used by the rounds only
}

// hold is a leadership. It is never changed, only replaced.
type hold struct {
	place   place
	record  record
	version int32  // of the record's node, as this node wrote it
	link    uint64 // the connection on which the term was last confirmed
	cause   elector.Cause
	before  conclave.NodeID
}

var (
	_ elector.Strategy  = (*Strategy)(nil)
	_ elector.Waker     = (*Strategy)(nil)
	_ elector.Suspender = (*Strategy)(nil)
	_ elector.Closer    = (*Strategy)(nil)
)

// NewStrategy returns a Strategy, or an error if the configuration is invalid. It
// sends no request.
func NewStrategy(cfg StrategyConfig) (*Strategy, error) {
	if cfg.Tree == nil {
		return nil, errors.New("zklatch: Tree is missing")
	}
	if !strings.HasPrefix(cfg.Path, "/") || strings.HasSuffix(cfg.Path, "/") {
		return nil, fmt.Errorf("zklatch: Path %q must begin with a slash and not end with one", cfg.Path)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Strategy{
		cfg: cfg, log: cfg.Logger, wake: signal.New(),
		client: NewClient(cfg.Tree, ClientConfig{Rand: cfg.Rand, Logger: cfg.Logger}),
	}, nil
}

// Wake returns a channel that receives when this node becomes the first in the queue,
// and when its connection breaks while it leads.
func (s *Strategy) Wake() <-chan struct{} { return s.wake.C() }

// Suspended reports whether the connection has changed since the held term was last
// confirmed.
func (s *Strategy) Suspended() bool {
	h := s.held.Load()
	if h == nil {
		return false
	}
	now, _ := s.cfg.Tree.Session()
	return now.ID != h.place.session || now.Link != h.link
}

// Close deletes nothing, like a crash, and joins all goroutines. It does not close
// the Tree.
func (s *Strategy) Close() error {
	if s.latch != nil {
		s.latch.abandon()
	}
	s.client.Close()
	return nil
}

// Round plays one round. The numbers are those of the package comment.
func (s *Strategy) Round(ctx context.Context, me elector.Candidate, _ elector.Term) (elector.Term, error) {
	if me.Holding != 0 {
		return s.renew(ctx, me)
	}
	ctx, cancel := context.WithTimeout(ctx, me.Beat/2)
	defer cancel()
	if s.held.Swap(nil) != nil || me.Observer {
		s.leave(ctx) // a place is used for one term only
	}
	if me.Observer {
		return s.look(ctx, me)
	}
	if s.latch == nil {
		s.stand(me)
	}
	if p, leads := s.latch.leads(); leads {
		return s.compete(ctx, me, p)
	}
	return s.look(ctx, me)
}

// stand enters the queue (1).
func (s *Strategy) stand(me elector.Candidate) {
	s.latch = s.client.Latch(s.cfg.Path+lineNode, me.ID.String())
	s.latch.Listen(Listener{IsLeader: s.wake.Set, NotLeader: s.wake.Set})
	if err := s.latch.Start(); err != nil {
		panic(err) // cannot happen: it is new
	}
}

// leave deletes this node's place in the queue, which lets the next one lead.
func (s *Strategy) leave(ctx context.Context) {
	if s.latch != nil {
		s.latch.Close(ctx, Silent)
		s.latch = nil
	}
}

// look reads the record, and whether its leader's place still exists.
func (s *Strategy) look(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	r, _, err := s.read(ctx)
	if err != nil {
		return elector.Term{}, err
	}
	if r.Number == 0 || r.Resigned || r.Leader == me.ID.String() {
		return r.term(me, false), nil
	}
	_, _, err = s.cfg.Tree.Get(ctx, r.Node)
	if err != nil && !errors.Is(err, ErrNoNode) {
		return elector.Term{}, fmt.Errorf("look at the leader's place: %w", err)
	}
	return r.term(me, err == nil), nil
}

// compete writes the next term into the record (2). It succeeds only while this node
// has the first place.
func (s *Strategy) compete(ctx context.Context, me elector.Candidate, p place) (elector.Term, error) {
	now, _ := s.cfg.Tree.Session()
	if now.Timeout < me.Lease {
		return elector.Term{}, fmt.Errorf("the servers grant a session timeout of %v, which must be at least the lease of %v", now.Timeout, me.Lease)
	}
	r, version, err := s.read(ctx)
	if err != nil {
		return elector.Term{}, err
	}
	h := &hold{place: p, cause: cause(r, me), link: now.Link}
	if h.cause != elector.CauseFirst {
		h.before, _ = conclave.ParseNodeID(r.Leader) // an invalid leader counts as none
	}
	h.record = record{
		Number: max(r.Number, me.Highest) + 1, Leader: me.ID.String(), Address: me.Address,
		LeaseMs: me.Lease.Milliseconds(), Node: p.path(),
	}
	if r.Node == p.path() {
		// This place has won already, but the answer was lost or came too late. That
		// term is not led, and the place is not used again.
		s.leave(ctx)
		return r.term(me, false), nil
	}
	stat, err := s.cfg.Tree.SetIf(ctx, s.cfg.Path+recordNode, h.record.bytes(), version, p.path())
	switch {
	case errors.Is(err, ErrBadVersion), errors.Is(err, ErrNoNode), errors.Is(err, ErrSessionExpired):
		return s.look(ctx, me) // lost: another node has won, or the place does not exist any more
	case errors.Is(err, ErrConnectionLost):
		// 3. No answer: the place in the record shows whether the write was executed,
		// and a beat proves that the place still exists.
		if r, version, readErr := s.read(ctx); readErr == nil && r.Node == p.path() {
			h.version, h.record = version, r
			return s.beat(ctx, me, h)
		}
		return elector.Term{}, fmt.Errorf("outcome of term %d is unknown: %w", h.record.Number, err)
	case err != nil:
		return elector.Term{}, fmt.Errorf("win term %d: %w", h.record.Number, err)
	}
	h.version = stat.Version
	s.held.Store(h)
	return h.term(me), nil
}

// cause returns why the election is held.
func cause(r record, me elector.Candidate) elector.Cause {
	switch {
	case me.Highest > r.Number:
		return elector.CauseRestored
	case r.Number == 0:
		return elector.CauseFirst
	case r.Resigned:
		return elector.CauseResigned
	}
	return elector.CauseExpired
}

// term returns the held term as the Elector sees it.
func (h *hold) term(me elector.Candidate) elector.Term {
	return elector.Term{
		Number: h.record.Number, Leader: me.ID, Address: me.Address, Beat: h.record.Beat, Lease: me.Lease,
		Cause: h.cause, Previous: h.before,
	}
}

// renew is the leader's beat (4). ctx ends when trust does.
func (s *Strategy) renew(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	h := s.held.Load()
	if h == nil || h.record.Number != me.Holding {
		return elector.Term{}, fmt.Errorf("asked to renew term %d, which is not held here", me.Holding)
	}
	return s.beat(ctx, me, h)
}

// beat writes the record's next beat.
func (s *Strategy) beat(ctx context.Context, me elector.Candidate, h *hold) (elector.Term, error) {
	next, err := s.write(ctx, h, func(r *record) { r.Beat++ })
	switch {
	case err != nil:
		return elector.Term{}, fmt.Errorf("renew term %d: %w", h.record.Number, err)
	case next == nil:
		return s.deposed(ctx, me)
	}
	s.held.Store(next)
	return next.term(me), nil
}

// write changes the record of a held term, fenced by the place, and returns what is held
// then, or nil if the term has ended. It is repeated until there is an answer; a write
// whose answer was lost is found in the record.
func (s *Strategy) write(ctx context.Context, h *hold, change func(*record)) (*hold, error) {
	for {
		now, _ := s.cfg.Tree.Session()
		next := *h
		change(&next.record)
		stat, err := s.cfg.Tree.SetIf(ctx, s.cfg.Path+recordNode, next.record.bytes(), h.version, h.place.path())
		switch {
		case err == nil:
			next.version, next.link = stat.Version, now.Link
			return &next, nil
		case errors.Is(err, ErrConnectionLost):
			continue // the next try waits for a connection
		case errors.Is(err, ErrNoNode), errors.Is(err, ErrSessionExpired):
			return nil, nil
		case !errors.Is(err, ErrBadVersion):
			return nil, err
		}
		r, version, err := s.read(ctx)
		switch {
		case err != nil:
			return nil, err
		case r.Number != h.record.Number || r.Node != h.place.path() || r.Resigned:
			return nil, nil
		}
		h = &hold{place: h.place, record: r, version: version, link: h.link, cause: h.cause, before: h.before}
	}
}

// deposed drops what was held and returns the present term.
func (s *Strategy) deposed(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	s.held.Store(nil)
	s.leave(ctx)
	term, err := s.look(ctx, me)
	if err != nil {
		// It is certain that this node is deposed, but not by which node.
		s.log.Debug("deposed, and the record cannot be read", "error", err)
		return elector.Term{Number: me.Holding, Lease: me.Lease}, nil
	}
	return term, nil
}

// Resign marks the term in the record as resigned, and leaves the queue, which wakes
// the next one (5).
func (s *Strategy) Resign(ctx context.Context, held elector.Term) error {
	h := s.held.Swap(nil)
	if h == nil || h.record.Number != held.Number {
		return nil // lost already
	}
	defer s.leave(ctx)
	if _, err := s.write(ctx, h, func(r *record) { r.Resigned = true }); err != nil {
		return fmt.Errorf("resign term %d: %w", held.Number, err)
	}
	return nil
}
