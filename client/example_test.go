package client_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"conclave/client"
)

// One application publishes its address; another one sees it, its update and
// its withdrawal.
func Example() {
	session := startSession() // stands for a cluster: `conclave up` starts a real one
	defer session.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	token := os.Getenv("CONCLAVE_TOKEN") // with the right publish; "" for a cluster without tokens
	server, err := client.New(client.Config{Sessions: []string{session.address}, Name: "greeter", Token: token})
	if err != nil {
		panic(err)
	}
	server.Start()
	caller, err := client.New(client.Config{Sessions: []string{session.address}, Name: "caller", Token: token})
	if err != nil {
		panic(err)
	}
	caller.Start()

	p, err := server.Publish(ctx, "com.example.Greeter", []string{"10.0.0.1:8080"})
	if err != nil {
		panic(err)
	}
	if err := p.Stored(ctx); err != nil {
		panic(err)
	}

	s, err := caller.Subscribe("com.example.Greeter")
	if err != nil {
		panic(err)
	}
	fmt.Println((<-s.C()).Values)

	if err := p.Update([]string{"10.0.0.1:8080", "10.0.0.1:8081"}); err != nil {
		panic(err)
	}
	fmt.Println((<-s.C()).Values)

	if err := server.Close(ctx); err != nil { // withdraws
		panic(err)
	}
	fmt.Println((<-s.C()).Values)
	if err := caller.Close(ctx); err != nil {
		panic(err)
	}
	// Output:
	// [10.0.0.1:8080]
	// [10.0.0.1:8080 10.0.0.1:8081]
	// []
}
