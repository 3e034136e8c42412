// SPDX-License-Identifier: Apache-2.0
// One flow of ns-3's TCP over one bottleneck, for experiments/tcp/ns3.py.
//
// sender -- 100 Gb/s -- router -- bottleneck -- receiver, the bottleneck's queue in packets, an ACK for each segment,
// SACK, timestamps. With --marks the queue marks from so many packets on (RED as DCTCP's paper wants it). Written to
// standard output: a line "cwnd N" of the window in segments every --step seconds from --step on, then "acked N", the
// payload in bytes that has come after --settle seconds.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdint>
#include <iostream>
#include <string>

using namespace ns3;

namespace
{

constexpr uint32_t kSegment = 1448;
constexpr double kBegin = 0.001; // a socket exists when its application has started
uint32_t g_window = 0;
uint64_t g_acked = 0;
double g_settle = 0;

void
Window(uint32_t, uint32_t now)
{
    g_window = now;
}

void
Trace()
{
    Config::ConnectWithoutContext("/NodeList/0/$ns3::TcpL4Protocol/SocketList/0/CongestionWindow",
                                  MakeCallback(&Window));
}

void
Came(Ptr<const Packet> packet, const Address&)
{
    if (Simulator::Now().GetSeconds() >= g_settle)
    {
        g_acked += packet->GetSize();
    }
}

void
Sample(Time step)
{
    std::cout << "cwnd " << static_cast<double>(g_window) / kSegment << "\n";
    Simulator::Schedule(step, &Sample, step);
}

void
Defaults(const std::string& control, bool marks)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + control)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kSegment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 24));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 24));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(1)));
    if (marks)
    {
        Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
    }
}

// The queue of the bottleneck: the device's own, or one that marks before a device with room for one packet.
void
DeviceQueue(PointToPointHelper& link, uint32_t packets, uint32_t marks)
{
    const uint32_t own = marks ? 1 : packets;
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(own) + "p"));
}

void
QueueDiscs(const NetDeviceContainer& fast, const NetDeviceContainer& slow, uint32_t packets, uint32_t marks)
{
    TrafficControlHelper none;
    none.Uninstall(fast);
    none.Uninstall(slow);
    if (marks == 0)
    {
        return;
    }
    Config::SetDefault("ns3::RedQueueDisc::UseEcn", BooleanValue(true));
    Config::SetDefault("ns3::RedQueueDisc::UseHardDrop", BooleanValue(false));
    Config::SetDefault("ns3::RedQueueDisc::QW", DoubleValue(1));
    Config::SetDefault("ns3::RedQueueDisc::MeanPktSize", UintegerValue(1500));
    Config::SetDefault("ns3::RedQueueDisc::MinTh", DoubleValue(marks));
    Config::SetDefault("ns3::RedQueueDisc::MaxTh", DoubleValue(marks));
    TrafficControlHelper red;
    red.SetRootQueueDisc("ns3::RedQueueDisc", "MaxSize", StringValue(std::to_string(packets) + "p"));
    red.Install(slow.Get(0));
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string control = "TcpNewReno";
    uint64_t rate = 10'000'000;
    double delay = 0.01;
    double seconds = 100;
    double step = 0.1;
    uint32_t packets = 50;
    uint32_t marks = 0;
    CommandLine cmd;
    cmd.AddValue("control", "class of ns-3's congestion control", control);
    cmd.AddValue("rate", "of the bottleneck, bit/s as ns-3 counts them", rate);
    cmd.AddValue("delay", "each way, seconds", delay);
    cmd.AddValue("queue", "packets", packets);
    cmd.AddValue("marks", "packets in the queue from which on it marks; 0: never", marks);
    cmd.AddValue("seconds", "of virtual time", seconds);
    cmd.AddValue("step", "seconds between samples", step);
    cmd.AddValue("settle", "seconds that are not counted", g_settle);
    cmd.Parse(argc, argv);

    Defaults(control, marks > 0);
    NodeContainer nodes;
    nodes.Create(3);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("100Gbps"));
    link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(1)));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("65536p"));
    const NetDeviceContainer fast = link.Install(nodes.Get(0), nodes.Get(1));
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate)));
    link.SetChannelAttribute("Delay", TimeValue(Seconds(delay)));
    DeviceQueue(link, packets, marks);
    const NetDeviceContainer slow = link.Install(nodes.Get(1), nodes.Get(2));

    InternetStackHelper internet;
    internet.Install(nodes);
    Ipv4AddressHelper addresses("10.0.1.0", "255.255.255.0");
    addresses.Assign(fast);
    addresses.SetBase("10.0.2.0", "255.255.255.0");
    const Ipv4InterfaceContainer far = addresses.Assign(slow);
    QueueDiscs(fast, slow, packets, marks);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5001));
    sink.Install(nodes.Get(2)).Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&Came));
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(far.GetAddress(1), 5001));
    source.SetAttribute("SendSize", UintegerValue(kSegment));
    source.Install(nodes.Get(0)).Start(Seconds(0));

    Simulator::Schedule(Seconds(kBegin), &Trace);
    Simulator::Schedule(Seconds(step), &Sample, Seconds(step));
    Simulator::Stop(Seconds(seconds + step / 2));
    Simulator::Run();
    Simulator::Destroy();
    std::cout << "acked " << g_acked << std::endl;
    return 0;
}
