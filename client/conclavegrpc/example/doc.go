// Example calls gRPC servers that it finds in Conclave, kills one or stops one in
// order every second, starts another, and counts the calls that failed:
//
//	conclave up --detach
//	go run ./example --sessions 127.0.0.1:9603,127.0.0.1:9604 --token-file ../../.conclave/app-token
//
// It ends with 1 if a call failed. With serve as its first argument it is one of the
// servers. The service is gRPC's own health check, so that no other is defined here.
package main
