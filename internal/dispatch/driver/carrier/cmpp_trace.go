package carrier

import (
	"fmt"
	"strings"

	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/cmpp"
)

func (*cmppProtocol) record(pdu cmpp.PDU) (command, status, text string) {
	command = cmpp.CommandOf(pdu).String()
	switch body := pdu.(type) {
	case *cmpp.Connect:
		text = fmt.Sprintf("Source_Addr %s, Version %s, Timestamp %s", body.SourceAddr, body.Version, body.Timestamp)
	case *cmpp.ConnectResp:
		status, text = body.Status.String(), "Version "+body.Version.String()
	case *cmpp.Submit:
		to := make([]string, len(body.Destinations))
		for i, number := range body.Destinations {
			to[i] = phone.Mask(number)
		}
		text = fmt.Sprintf("Pk %d of %d, Registered_Delivery %d, Service_Id %s, Msg_src %s, Src_Id %s, Dest_terminal_Id %s, Msg_Fmt %d, TP_udhi %d, ValId_Time %s, %d octets",
			body.Number, body.Total, body.RegisteredDelivery, body.ServiceID, body.Source, body.SourceNumber, strings.Join(to, " "), body.Format, body.UDHI,
			body.ValidTime, len(body.Content))
	case *cmpp.SubmitResp:
		status, text = body.Result.String(), "Msg_Id "+body.MessageID.String()
	case *cmpp.Deliver:
		to := body.Destination
		if body.IsReport != 0 { // some gateways write the person there
			to = phone.Mask(to)
		}
		text = fmt.Sprintf("Msg_Id %s, Src_terminal_Id %s, Dest_Id %s, Service_Id %s, Msg_Fmt %d, TP_udhi %d, %d octets", body.MessageID, phone.Mask(body.Source),
			to, body.ServiceID, body.Format, body.UDHI, len(body.Content))
		if body.IsReport != 0 {
			text += recordReport(body.Content)
		}
	case *cmpp.DeliverResp:
		status, text = body.Result.String(), "Msg_Id "+body.MessageID.String()
	}
	return command, status, text
}

// recordReport describes a report.
func recordReport(content []byte) string {
	r, err := cmpp.DecodeReport(content)
	if err != nil {
		return ", report that cannot be read: " + err.Error()
	}
	return fmt.Sprintf(", report of %s: Stat %s, Done_time %s", r.MessageID, r.Stat, r.DoneTime)
}
