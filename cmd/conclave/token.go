package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"conclave/testbed/local/supervisor"
	"conclave/wire/rights"
)

// readToken sets the token from the flag, the file or the environment.
func (a *app) readToken() error {
	if a.token != "" && a.tokenFile != "" {
		return usageError{errors.New("--token and --token-file exclude each other")}
	}
	if a.tokenFile != "" {
		tokens, err := rights.ReadFile(a.tokenFile)
		if err != nil {
			return usageError{fmt.Errorf("--token-file: %w", err)}
		}
		a.token = tokens.Strongest()
	}
	if a.token == "" {
		a.token, a.fromEnv = os.Getenv("CONCLAVE_TOKEN"), true
	}
	return nil
}

// takeToken takes the token of the cluster in --dir, unless the user gave one by a
// flag: CONCLAVE_TOKEN may be that of applications, which may not do everything.
func (a *app) takeToken(h *supervisor.Handle) {
	if a.token != "" && !a.fromEnv {
		return
	}
	if token := h.Token(); token != "" { // clients that resolve sessions meanwhile read it
		a.token, a.fromEnv = token, false
	}
}

// takeTokenOfSessions is takeToken if all of --session belong to the cluster in
// --dir: the token is sent to no other address.
func (a *app) takeTokenOfSessions() {
	h, err := supervisor.Open(a.dir)
	if err != nil || len(a.metas) > 0 || len(a.sessionsAt) == 0 {
		return
	}
	own, err := h.Addresses("session")
	for _, address := range a.sessionsAt {
		if err != nil || !slices.Contains(own, address) {
			return
		}
	}
	a.takeToken(h)
}

// tokenFor returns what is sent to an address: the token if it was given to the tool,
// and one that is bound to the address if it was not, as those that metas list.
func (a *app) tokenFor(address string) string {
	return a.tokensFor()(address)
}

// tokensFor returns tokenFor for what asks often: the addresses that are given now are
// read once.
func (a *app) tokensFor() func(address string) string {
	given := a.given()
	return func(address string) string { return rights.TokenFor(a.token, address, given) }
}

// given returns the addresses that the user has named: those of --meta and --session,
// or of the processes of the cluster in --dir.
func (a *app) given() []string {
	given := slices.Concat(a.metas, a.sessionsAt)
	if len(a.metas) > 0 {
		return given
	}
	h, err := supervisor.Open(a.dir)
	if err != nil {
		return given
	}
	own, err := h.Reached()
	if err != nil {
		return given
	}
	return append(given, own...)
}
