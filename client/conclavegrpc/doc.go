// Package conclavegrpc finds the servers of a gRPC client in Conclave:
//
//	c, err := client.New(client.Config{Sessions: []string{"127.0.0.1:9603"}, Token: os.Getenv("CONCLAVE_TOKEN")})
//	c.Start()
//	defer c.Close(ctx)
//	conn, err := grpc.NewClient("conclave:///com.example.Greeter",
//		grpc.WithResolvers(conclavegrpc.NewBuilder(c)),
//		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
//		grpc.WithTransportCredentials(credentials))
//
// The values that are published under the name are the addresses, each host:port.
// The connection has the newest list within milliseconds of each push, and keeps
// the last one while no session can be reached.
//
// It is a module of its own, so that package client does not need gRPC.
//
// # A call that is not lost
//
// A server that stops in order withdraws its address, waits until data has that
// (client.Publication.Stored), and only then calls grpc.Server.GracefulStop: no
// call fails. A server that is killed fails the calls that it was answering; its
// address stays for about a second, in which round_robin uses the others. A retry
// policy in the service config repeats such calls at another server, if the
// application names the calls that may be repeated (see ./example).
package conclavegrpc
