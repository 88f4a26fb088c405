//! What a fleet of one coordinator and one worker uses: CPU per object, memory, and time from start to the first Ready.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::try_join;
use kube::api::DynamicObject;
use tokio::time::{Instant, sleep};

use super::measured::{Cpu, MeasuredFleet, Requests};
use super::objects::{self, Kind};
use super::report::Figure;
use super::tally::Tally;
use flotilla_testbed::cluster::resource_of;
use flotilla_testbed::fleet::Role;

/// The longest that anything may take: past it something hangs.
const WITHIN: Duration = Duration::from_mins(6);

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Kinds to install.
    pub(super) pattern: &'static str,
    /// How often what is short is measured.
    pub(super) runs: usize,
    /// Objects of a run, without a long-running operation.
    pub(super) plain: usize,
    /// Objects of a run, with one.
    pub(super) slow: usize,
    /// Objects in the end, if they are to become many.
    pub(super) many: Option<usize>,
    /// Quiet time before memory is read, and over which CPU time at rest is.
    pub(super) quiet: Duration,
}

/// A measurement under way.
pub(super) struct Course {
    measured: MeasuredFleet,
    size: Size,
    /// Created so far: groups, identities, storage accounts.
    groups: usize,
    identities: usize,
    accounts: usize,
    figures: Vec<Figure>,
}

/// What it took to get objects Ready.
#[derive(Clone, Copy, Debug)]
struct Spent {
    objects: usize,
    cpu: Cpu,
    requests: Requests,
    time: Duration,
}

impl Spent {
    /// Milliseconds of CPU time per object.
    fn cpu_per_object(&self, part: impl Fn(Cpu) -> Duration) -> f64 {
        part(self.cpu).as_secs_f64() * 1e3 / count(self.objects)
    }

    fn per_second(&self) -> f64 {
        count(self.objects) / self.time.as_secs_f64()
    }
}

/// Takes all figures.
pub(super) async fn measure(size: Size, logs: &Path, say: &impl Fn(&str)) -> Result<Vec<Figure>> {
    let measured = MeasuredFleet::set(size.pattern, logs).await?;
    let mut course = Course { measured, size, groups: 0, identities: 0, accounts: 0, figures: Vec::new() };
    let done = course.run(say).await;
    let Course { measured, figures, .. } = course;
    measured.strike().await?;
    done.map(|()| figures)
}

impl Course {
    async fn run(&mut self, say: &impl Fn(&str)) -> Result<()> {
        let size = self.size;
        say("installing kinds");
        let kinds = self.install().await?;
        objects::make_namespaces(self.measured.cluster()).await?;
        let owners = objects::owners()?;
        self.groups = owners.len();
        self.create(owners).await?;

        say(&format!("start to first Ready with {kinds} kinds, {} times", size.runs));
        let starts = self.starts(size.runs).await?;
        self.figures.push(
            Figure::new(format!("start to first Ready, {kinds} kinds"), "s", starts)
                .at_most(5.0)
                .aso("56 (294 kinds), 4 (3 kinds)"),
        );
        self.memory(&format!("{} objects", self.total()), self.target(40.0, 0), Some("428")).await?;
        self.rest().await?;

        say("the first object of a kind");
        self.firsts().await?;
        self.plain(say).await?;
        self.slow(say).await?;
        if let Some(many) = size.many {
            self.many(many, say).await?;
        }
        Ok(())
    }

    /// Lets a first leader install the kinds.
    async fn install(&mut self) -> Result<usize> {
        let started = Instant::now();
        self.measured.start_fleet().await?;
        let kinds = self.measured.cluster().wait_kinds(self.size.pattern, WITHIN).await?;
        self.figures.push(Figure::new(
            format!("installing {kinds} kinds into an empty cluster"),
            "s",
            [started.elapsed().as_secs_f64()],
        ));
        Ok(kinds)
    }

    /// Stops and starts the fleet; a resource group that was created meanwhile is the first to become Ready.
    async fn starts(&mut self, times: usize) -> Result<Vec<f64>> {
        let mut seconds = Vec::new();
        for _ in 0..times {
            self.measured.stop_fleet().await?;
            let group = Kind::Group.object(self.groups)?;
            self.groups += 1;
            let mut tally = self.tally(&group).await?;
            let wanted = tally.ready() + 1;
            self.measured.cluster().apply(&group).await?;
            let started = Instant::now();
            let ready = async {
                tally.until(wanted, WITHIN).await?;
                Ok(started.elapsed())
            };
            let (took, ()) = try_join!(ready, self.measured.start_fleet())?;
            seconds.push(took.as_secs_f64());
        }
        Ok(seconds)
    }

    /// From then on both kinds are watched, so that what follows measures no search for them.
    async fn firsts(&mut self) -> Result<()> {
        let identity = self.identities(1).await?.time;
        let account = self.accounts(1).await?.time;
        let seconds = [identity.as_secs_f64(), account.as_secs_f64()];
        self.figures.push(Figure::new("first object of a kind, create to Ready", "s", seconds));
        Ok(())
    }

    /// Types that Azure makes at once.
    async fn plain(&mut self, say: &impl Fn(&str)) -> Result<()> {
        let size = self.size;
        let mut runs = Vec::new();
        for run in 0..size.runs {
            // The first run fills up to a round number, at which memory is read.
            let wanted = if run == 0 { size.plain - self.total() } else { size.plain };
            say(&format!("{wanted} identities, run {} of {}", run + 1, size.runs));
            runs.push(self.identities(wanted).await?);
            if run == 0 {
                let target = self.target(45.0, 1_000);
                self.memory(&format!("{} objects", self.total()), target, Some("464")).await?;
            }
        }
        self.figures.extend(figures_of("identity, no operation", &runs));
        Ok(())
    }

    /// A type with a long-running operation.
    async fn slow(&mut self, say: &impl Fn(&str)) -> Result<()> {
        let mut runs = Vec::new();
        for run in 0..self.size.runs {
            say(&format!("{} storage accounts, run {} of {}", self.size.slow, run + 1, self.size.runs));
            runs.push(self.accounts(self.size.slow).await?);
        }
        self.figures.extend(figures_of("storage account, with operation", &runs));
        Ok(())
    }

    /// Many objects: what they cost at rest and at a start.
    async fn many(&mut self, many: usize, say: &impl Fn(&str)) -> Result<()> {
        let wanted = many.saturating_sub(self.total());
        say(&format!("{wanted} identities more, to {many} objects"));
        let filled = self.identities(wanted).await?;
        let name = format!("identities Ready per second, up to {many} objects");
        self.figures.push(Figure::new(name, "1/s", [filled.per_second()]));
        let target = self.target(60.0, 10_000);
        self.memory(&format!("{many} objects"), target, None).await?;
        self.rest().await?;

        say(&format!("start with {many} objects"));
        let started = Instant::now();
        let first = self.starts(1).await?;
        let stopping = started.elapsed().as_secs_f64() - first[0];
        self.measured.wait_known(self.total(), WITHIN).await?;
        let known = started.elapsed().as_secs_f64() - stopping;
        self.figures.push(Figure::new(format!("start to first Ready, {many} objects"), "s", first));
        self.figures.push(Figure::new(format!("start until {many} objects are known"), "s", [known]));
        self.memory(&format!("{many} objects, after a start"), target, None).await
    }

    async fn identities(&mut self, wanted: usize) -> Result<Spent> {
        let numbers = self.identities..self.identities + wanted;
        self.identities = numbers.end;
        self.create(numbers.map(|number| Kind::Identity.object(number)).collect::<Result<_>>()?).await
    }

    async fn accounts(&mut self, wanted: usize) -> Result<Spent> {
        let numbers = self.accounts..self.accounts + wanted;
        self.accounts = numbers.end;
        self.create(numbers.map(|number| Kind::StorageAccount.object(number)).collect::<Result<_>>()?).await
    }

    /// Creates objects of one kind and waits until they are Ready.
    async fn create(&mut self, wanted: Vec<DynamicObject>) -> Result<Spent> {
        let mut tally = self.tally(wanted.first().context("nothing to create")?).await?;
        let all = tally.ready() + wanted.len();
        let (cpu, requests, started) = (self.measured.cpu()?, self.measured.requests()?, Instant::now());
        try_join!(objects::apply(self.measured.cluster(), &wanted), tally.until(all, WITHIN))?;
        let (time, cpu) = (started.elapsed(), self.measured.cpu()? - cpu);
        Ok(Spent { objects: wanted.len(), cpu, requests: self.measured.requests()? - requests, time })
    }

    async fn tally(&self, like: &DynamicObject) -> Result<Tally> {
        Tally::start(self.measured.cluster().client().clone(), resource_of(like)?).await
    }

    /// Memory of everybody, after a quiet time.
    async fn memory(&mut self, at: &str, target: Option<f64>, aso: Option<&'static str>) -> Result<()> {
        sleep(self.size.quiet).await;
        let (worker, coordinator) = (self.measured.memory(Role::Worker)?, self.measured.memory(Role::Coordinator)?);
        let server = self.measured.api_server_memory().await?;
        let mut resident = Figure::new(format!("worker's memory, {at}: RSS"), "MiB", [worker.resident]);
        // What was measured of others holds for the same kinds and objects as the target does.
        if let Some(target) = target {
            resident = resident.at_most(target);
            if let Some(aso) = aso {
                resident = resident.aso(aso);
            }
        }
        self.figures.push(resident);
        let more = |what: &str, value| Figure::new(format!("{what}, {at}"), "MiB", [value]);
        self.figures.extend([
            more("· of it heap and stacks", worker.anonymous),
            more("· PSS", worker.proportional),
            more("· most since its start", worker.peak),
            more("coordinator's memory: RSS", coordinator.resident),
            more("API server's memory: RSS", server.resident),
        ]);
        Ok(())
    }

    /// CPU time while nothing happens.
    async fn rest(&mut self) -> Result<()> {
        let (before, started) = (self.measured.cpu()?, Instant::now());
        sleep(self.size.quiet).await;
        let (cpu, seconds) = (self.measured.cpu()? - before, started.elapsed().as_secs_f64());
        let share = |part: Duration| part.as_secs_f64() * 1e3 / seconds;
        let at = self.total();
        self.figures.push(Figure::new(format!("CPU at rest, {at} objects: worker"), "ms/s", [share(cpu.workers)]));
        self.figures.push(Figure::new(
            format!("CPU at rest, {at} objects: coordinator"),
            "ms/s",
            [share(cpu.coordinators)],
        ));
        Ok(())
    }

    /// Targets are for all kinds installed and this number of objects.
    fn target(&self, mebibytes: f64, objects: usize) -> Option<f64> {
        let fits = self.size.pattern == "*" && (self.total() == objects || (objects == 0 && self.identities == 0));
        fits.then_some(mebibytes)
    }

    fn total(&self) -> usize {
        self.groups + self.identities + self.accounts
    }
}

/// What a kind of object costs.
fn figures_of(what: &str, runs: &[Spent]) -> Vec<Figure> {
    let figure = |name: &str, unit, value: &dyn Fn(&Spent) -> f64| {
        Figure::new(format!("{name}: {what}"), unit, runs.iter().map(value).collect::<Vec<f64>>())
    };
    vec![
        figure("CPU per object", "ms", &|run| run.cpu_per_object(Cpu::total)).at_most(3.0).aso("29–34"),
        figure("· worker's part", "ms", &|run| run.cpu_per_object(|cpu| cpu.workers)),
        figure("· coordinator's part", "ms", &|run| run.cpu_per_object(|cpu| cpu.coordinators)),
        figure("objects per CPU second", "1/s", &|run| 1e3 / run.cpu_per_object(Cpu::total)),
        figure("objects per second, everything on this machine", "1/s", &Spent::per_second),
        figure("calls to Azure per object", "", &|run| narrow(run.requests.azure) / count(run.objects)),
        figure("reads from the API server per object", "", &|run| count(run.requests.reads) / count(run.objects)),
        figure("writes to the API server per object", "", &|run| count(run.requests.writes) / count(run.objects)),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52 calls")]
fn narrow(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52 objects")]
fn count(number: usize) -> f64 {
    number as f64
}
