# A program that uses Net::SMPP: perl net_smpp.pl client|server CORPUS PORT. It does the same as node.cjs.
use strict;
use warnings;
use Encode qw(encode decode);
use JSON::PP;
use Net::SMPP;

my ($role, $corpus, $port) = @ARGV;
my $json = JSON::PP->new->utf8->canonical;
open my $file, '<:raw', $corpus or die "$corpus: $!";
my $texts = $json->decode(do { local $/; <$file> });
my ($reference, $done) = (300, 0);
$| = 1;

sub report { print $json->encode({@_}), "\n" }

# parts splits encoded octets: an escape and a surrogate pair stay whole.
sub parts {
    my ($octets, $limit, $is_gsm) = @_;
    my $character = $is_gsm ? qr/\x1b?./s : qr/[\xd8-\xdb].{3}|../s;
    my @parts = ('');
    while ($octets =~ /\G($character)/g) {
        push @parts, '' if length($parts[-1]) + length($1) > $limit;
        $parts[-1] .= $1;
    }
    return @parts;
}

# messages returns the arguments of the messages that send a text.
sub messages {
    my ($text, $form) = @_;
    my $octets = encode('gsm0338', $text, sub { '' });
    my $is_gsm = decode('gsm0338', $octets) eq $text;
    $octets = encode('UTF-16BE', $text) unless $is_gsm;
    my @common = (source_addr => '106900', destination_addr => '8613800138000', data_coding => $is_gsm ? 0 : 8);
    return [@common, short_message => $octets] if length($octets) <= ($is_gsm ? 160 : 140);
    return [@common, message_payload => $octets] if $form eq 'payload';
    my @parts = parts($octets, $is_gsm ? 152 : 132, $is_gsm);
    my ($total, $i) = (scalar @parts, 0);
    $reference++;
    return map {
        $i++;
        $form eq 'sar'
          ? [@common, short_message => $_, sar_msg_ref_num => pack('n', $reference), sar_total_segments => chr $total, sar_segment_seqnum => chr $i]
          : [@common, esm_class => 0x40, short_message =>
              ($form eq 'udh8' ? pack('C*', 5, 0, 3, $reference & 255, $total, $i) : pack('CCCnCC', 6, 8, 4, $reference, $total, $i)) . $_]
    } @parts;
}

sub send_all {
    my ($smpp, $command) = @_;
    for my $form (qw(udh8 udh16 sar payload)) {
        for my $text (@$texts) {
            for my $message (messages($text, $form)) {
                my $answer = $smpp->$command(@$message);
                report(error => "$command was answered with " . ($answer ? $answer->{status} : 'nothing')) if !$answer || $answer->{status};
            }
        }
    }
    report(done => JSON::PP::true);
}

my %waiting;

# received joins the parts of messages and prints their texts.
sub received {
    my $pdu = shift;
    my $octets = defined $pdu->{message_payload} ? $pdu->{message_payload} : $pdu->{short_message};
    if ($pdu->{esm_class} & 4) {
        (my $id = $pdu->{receipted_message_id}) =~ s/\0$//;
        return report(receipt => $octets, id => $id, state => ord $pdu->{message_state});
    }
    my ($reference, $total, $part);
    if ($pdu->{esm_class} & 0x40) {
        my $header = substr $octets, 0, 1 + ord $octets, '';
        ($reference, $total, $part) = ord(substr $header, 1) ? unpack 'x3nCC', $header : unpack 'x3CCC', $header;
    } elsif (defined $pdu->{sar_msg_ref_num}) {
        ($reference, $total, $part) = (unpack('n', $pdu->{sar_msg_ref_num}), ord $pdu->{sar_total_segments}, ord $pdu->{sar_segment_seqnum});
    }
    if ($total) {
        $waiting{$reference}{$part} = $octets;
        return if keys %{$waiting{$reference}} < $total;
        my $parts = delete $waiting{$reference};
        $octets = join '', map { $parts->{$_} } sort { $a <=> $b } keys %$parts;
    }
    report(text => decode($pdu->{data_coding} == 8 ? 'UTF-16BE' : 'gsm0338', $octets));
}

# serve answers the PDUs of the other side until unbind.
sub serve {
    my ($smpp, $on_bind) = @_;
    while (my $pdu = $smpp->read_pdu) {
        my $cmd = $pdu->{cmd};
        if ($cmd == Net::SMPP::CMD_submit_sm) {
            $smpp->submit_sm_resp(seq => $pdu->{seq}, message_id => $pdu->{seq});
            received($pdu);
        } elsif ($cmd == Net::SMPP::CMD_deliver_sm) {
            $smpp->deliver_sm_resp(seq => $pdu->{seq}, message_id => '');
            received($pdu);
        } elsif ($cmd == Net::SMPP::CMD_enquire_link) {
            $smpp->enquire_link_resp(seq => $pdu->{seq});
        } elsif ($cmd == Net::SMPP::CMD_unbind) {
            $smpp->unbind_resp(seq => $pdu->{seq});
            return;
        } elsif ($cmd == Net::SMPP::CMD_bind_transceiver) {
            return unless $on_bind->($pdu);
        }
    }
}

sub client {
    my ($rejected, $answer) = Net::SMPP->new_transceiver('127.0.0.1', port => $port, system_id => 'stranger', password => 'wrong');
    report(bind => $answer->{status});
    my ($smpp, $bound) = Net::SMPP->new_transceiver('127.0.0.1', port => $port, system_id => 'stranger', password => 'secret');
    report(bind => $bound->{status});
    send_all($smpp, 'submit_sm');
    serve($smpp);
}

sub server {
    my $listener = Net::SMPP->new_listen('127.0.0.1', port => 0) or die "listen: $!";
    report(port => $listener->sockport);
    while (!$done) {
        my $smpp = $listener->accept or die "accept: $!";
        serve($smpp, sub {
            my $pdu = shift;
            my $is_rejected = $pdu->{password} ne 'secret';
            $smpp->bind_transceiver_resp(seq => $pdu->{seq}, status => $is_rejected ? 0x0E : 0, system_id => 'Net::SMPP');
            return 0 if $is_rejected;
            send_all($smpp, 'deliver_sm');
            return $done = 1;
        });
        close $smpp;
    }
}

$role eq 'client' ? client() : server();
