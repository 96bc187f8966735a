package electorhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"conclave"
	"conclave/elector"
	"conclave/elector/electorfake"
	"conclave/elector/electorhttp"
)

// A load balancer asks each process whether it leads.
func ExampleHandler() {
	led := make(chan bool)
	e, err := elector.New(elector.Config{
		ID: conclave.NodeID{Name: "worker-1", Incarnation: "1"}, Address: "10.0.0.1:80",
		Strategy: electorfake.New().Strategy(), // yours: termcas.New
		Lead:     func(ctx context.Context, _ elector.Term) error { close(led); <-ctx.Done(); return nil },
	})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux() // yours, served where operators are
	mux.Handle("/election/", http.StripPrefix("/election", electorhttp.Handler(e)))
	ask := func() {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/election/leaderz", nil))
		fmt.Print(answer.Code, " ", answer.Body)
	}
	ask()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	<-led
	ask()
	stop()
	<-ended
	// Output:
	// 503 following, term 0, no leader
	// 200 leading, term 1 of worker-1@1 at 10.0.0.1:80 (first)
}
