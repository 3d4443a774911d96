package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"lksms/client"
)

// exampleServer returns a server that always returns the same response.
func exampleServer(answer string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if answer[:11] == `{"code":422` {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		fmt.Fprint(w, answer)
	}))
}

func ExampleClient_Send() {
	server := exampleServer(`{"code":200,"message":"success","data":{"task_id":"task_20231201_01HGJ2V4W0Y8Q6ZK3M5N7P9R1T","status":0,` +
		`"final_content":"Your parcel is here"}}`)
	defer server.Close()

	c, err := client.New(server.URL, client.Basic("system_a", "password or API key"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	text := "Your parcel is here"
	sent, err := c.Send(ctx, client.Message{PhoneNumber: "13800138000", Content: &text})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sent.TaskID)
	// Output: task_20231201_01HGJ2V4W0Y8Q6ZK3M5N7P9R1T
}

func ExampleError() {
	server := exampleServer(`{"code":422,"message":"A field is not valid.","error":{"reason":"request.invalid","fields":[` +
		`{"field":"phone_number","message":"is not a phone number that can be dialled"}]},"request_id":"01HGJ2V4W0"}`)
	defer server.Close()

	c, err := client.New(server.URL, client.Key("lk_..."))
	if err != nil {
		fmt.Println(err)
		return
	}
	text := "Your parcel is here"
	_, err = c.Send(context.Background(), client.Message{PhoneNumber: "12345678901", Content: &text})
	if refused, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(refused.Status, refused.Reason)
		for _, field := range refused.Fields {
			fmt.Println(field.Field, field.Message)
		}
	}
	// Output:
	// 422 request.invalid
	// phone_number is not a phone number that can be dialled
}

// ExampleClient_Claim claims tasks as a sender, sends them, and reports each task before its lease ends.
func ExampleClient_Claim() {
	server := exampleServer(`{"code":200,"message":"success","data":[{"task_id":"task_20231201_01HGJ2V4W0Y8Q6ZK3M5N7P9R1T",` +
		`"phone_number":"13800138000","content":"Your parcel is here","lease_id":1042,"attempt":1,"lease_until":"2023-12-01T10:30:30Z"}]}`)
	defer server.Close()

	c, err := client.New(server.URL, client.Basic("phone_1", "password or API key"))
	if err != nil {
		fmt.Println(err)
		return
	}
	wait := 30
	tasks, err := c.Claim(context.Background(), client.Claim{AppID: "sms_app_001", Wait: &wait})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, task := range tasks {
		fmt.Println("send to", task.PhoneNumber+":", task.Content)
		err := c.Report(context.Background(), client.Report{
			TaskID: task.TaskID, AppID: "sms_app_001", LeaseID: &task.LeaseID, Status: client.ReportSuccess,
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output: send to 13800138000: Your parcel is here
}

func ExampleVerifyWebhook() {
	receive := func(w http.ResponseWriter, r *http.Request, body []byte) {
		if err := client.VerifyWebhook("whsec_MDEyMzQ1Njc4OWFiY2RlZg==", r.Header, body, time.Now()); err != nil {
			http.Error(w, "not genuine", http.StatusForbidden)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	w := httptest.NewRecorder()
	receive(w, httptest.NewRequest(http.MethodPost, "/", nil), []byte(`{"type":"message.sent"}`))
	fmt.Println(w.Code)
	// Output: 403
}

// The next two functions are in docs/codes.md. TestACodeOfTheExampleSignsAPersonIn calls them.

func sendCode(ctx context.Context, lksms *client.Client, phone, ip string) (id string, err error) {
	started, err := lksms.StartVerification(ctx, client.VerificationRequest{PhoneNumber: &phone, ClientIP: &ip, Purpose: "login"})
	if err != nil {
		return "", err
	}
	return started.VerificationID, nil
}

func isRight(ctx context.Context, lksms *client.Client, id, code string) (bool, error) {
	checked, err := lksms.CheckVerification(ctx, id, code)
	return err == nil && checked.Status == client.CodeIsRight, err
}
